"""Query for a page of invocations."""

from typing import Any

from sqlalchemy import Select, select, tuple_

from durable_adk.sessions.log.storage import InvocationPage
from durable_adk.sessions.sql.schema import INVOCATIONS

_IDS = ("user_id", "session_id", "invocation_id")


def page_query(page: InvocationPage) -> Select[Any]:
    """Build the query for a page, ordered by an index, so that no other rows are read."""
    fixed = {"app_name": page.app_name, "user_id": page.user_id, "session_id": page.session_id}
    if page.status is not None:
        fixed["status"] = page.status.value
    wanted = {name: value for name, value in fixed.items() if value is not None}
    order = _order(page)
    query = select(INVOCATIONS).filter_by(**wanted).limit(page.limit)
    if page.after is not None:
        key, record = page.after
        ids = {**key._asdict(), "invocation_id": record.invocation_id}
        place = {**ids, "update_time": record.update_time}
        after = tuple(place[name] for name in order)
        query = query.where(after < tuple_(*(INVOCATIONS.c[name] for name in order)))
    return query.order_by(*(INVOCATIONS.c[name] for name in order))


def _order(page: InvocationPage) -> tuple[str, ...]:
    """Return the columns to order by.

    Columns that are equal in all rows are omitted, because SQLite would sort for them. If only a
    status narrows the search, the order is by time: few invocations are open among many closed
    ones, and an invocation that gets the status during paging comes last. Otherwise the order is by
    ids, which never change.
    """
    if page.user_id is None:
        return _IDS if page.status is None else ("update_time", *_IDS)
    return _IDS[1:] if page.session_id is None else _IDS[2:]
