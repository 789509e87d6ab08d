"""The statement that reads a page of invocations."""

from typing import Any

from sqlalchemy import Select, select, tuple_

from durable_adk.sessions.log.storage import InvocationPage
from durable_adk.sessions.sql.schema import INVOCATIONS

_IDS = ("user_id", "session_id", "invocation_id")


def page_query(page: InvocationPage) -> Select[Any]:
    """The invocations of a page, in the order of an index, so that none is read beside them."""
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
    """Columns that are the same in all rows are left out: SQLite would sort for them.

    By time where only a status narrows the search: few wait among many that have ended. Those that
    get the status meanwhile come last then. Else by the ids, which never change.
    """
    if page.user_id is None:
        return _IDS if page.status is None else ("update_time", *_IDS)
    return _IDS[1:] if page.session_id is None else _IDS[2:]
