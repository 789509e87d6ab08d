"""Replaying histories: what was recorded must be what the code does (I13)."""

from temporalio.client import Client
from temporalio.worker import Replayer

from durable_adk.worker import workflow_runner
from durable_adk.workflows.invocation import InvocationWorkflow


async def replay_all(client: Client) -> int:
    """Replay every history of type Invocation the server has; returns how many there were.

    Raises:
        RuntimeError: One of them does not replay.
    """
    replayer = Replayer(
        workflows=[InvocationWorkflow],
        data_converter=client.data_converter,
        namespace=client.namespace,
        workflow_runner=workflow_runner(sandboxed=True),
    )
    count = 0
    async for execution in client.list_workflows("WorkflowType = 'Invocation'"):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        result = await replayer.replay_workflow(
            await handle.fetch_history(), raise_on_replay_failure=False
        )
        if result.replay_failure:
            raise RuntimeError(f"{execution.id} does not replay") from result.replay_failure
        count += 1
    return count
