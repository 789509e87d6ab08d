"""A cached workflow of a worker: the SDK's own workflow instance, driven directly."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import (
    InitializeWorkflow,
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.common import Priority, SearchAttributes, TypedSearchAttributes
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstanceDetails
from temporalio.workflow import Info, _Definition

from durable_adk.wire.converter import data_converter
from durable_adk.workflows.invocation import TYPE_NAME, InvocationWorkflow
from simulation.loop import VirtualLoop

NAMESPACE = "simulated"
_DEFINITION = _Definition.must_from_class(InvocationWorkflow)
_RUNNER = UnsandboxedWorkflowRunner()
_EVICTION = WorkflowActivationJob(remove_from_cache=RemoveFromCache(message="simulated"))
_EPOCH = datetime.fromtimestamp(0, UTC)


class TaskFailedError(Exception):
    """The workflow task failed: the real worker would try it again, for ever."""


def initialize(arguments: Sequence[Payload], run_id: str) -> WorkflowActivationJob:
    """The job that starts a run."""
    start = InitializeWorkflow(
        workflow_type=TYPE_NAME, arguments=arguments, randomness_seed=_seed(run_id)
    )
    return WorkflowActivationJob(initialize_workflow=start)


def _seed(run_id: str) -> int:
    """Of what a run draws: another for each, a reset workflow's included."""
    return int(run_id.rpartition("-")[2])


class WorkflowInstance:
    """One instance; after an eviction another one is made by replay.

    Args:
        loop: The running loop, while an instance is made.
        workflow_id: Of the workflow.
        run_id: Of this run.
        first_run_id: Of the first run of its chain.
    """

    def __init__(
        self, loop: VirtualLoop, *, workflow_id: str, run_id: str, first_run_id: str
    ) -> None:
        self._run_id = run_id
        self.flags: set[int] = set()
        details = WorkflowInstanceDetails(
            payload_converter_factory=data_converter._new_payload_converter,
            failure_converter_class=data_converter.failure_converter_class,
            interceptor_classes=(),
            defn=_DEFINITION,
            info=_info(workflow_id, run_id, first_run_id),
            randomness_seed=_seed(run_id),
            extern_functions={"__temporal_assert_local_activity_valid": lambda _name: None},
            disable_eager_activity_execution=False,
            worker_level_failure_exception_types=(),
            patch_activation_callback=None,
            last_completion_result=None,  # pyright: ignore[reportArgumentType]: nobody reads it
            last_failure=None,
        )
        with loop.running():
            self._instance = _RUNNER.create_instance(details)

    def activate(
        self,
        jobs: Sequence[WorkflowActivationJob],
        *,
        now: float,
        replaying: bool = False,
        suggested: bool = False,
    ) -> list[WorkflowCommand]:
        """Apply jobs and run the workflow until it waits; return its commands.

        Raises:
            TaskFailedError: It raised something that does not fail it.
        """
        activation = WorkflowActivation(
            run_id=self._run_id,
            is_replaying=replaying,
            jobs=jobs,
            available_internal_flags=self.flags,
            continue_as_new_suggested=suggested,
        )
        activation.timestamp.FromMicroseconds(round(now * 1e6))
        completion = self._instance.activate(activation)
        if completion.HasField("failed"):
            raise TaskFailedError(completion.failed.failure.message)
        self.flags.update(completion.successful.used_internal_flags)
        return list(completion.successful.commands)

    def evict(self) -> None:
        """Throw it away, as a worker does whose cache is full or which ends."""
        self._instance.activate(WorkflowActivation(run_id=self._run_id, jobs=[_EVICTION]))


def _info(workflow_id: str, run_id: str, first_run_id: str) -> Info:
    return Info(
        attempt=1,
        continued_run_id=None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=first_run_id,
        headers={},
        namespace=NAMESPACE,
        original_execution_run_id=run_id,
        parent=None,
        root=None,
        priority=Priority.default,
        raw_memo={},
        retry_policy=None,
        run_id=run_id,
        run_timeout=None,
        search_attributes=_NO_ATTRIBUTES,
        start_time=_EPOCH,
        workflow_start_time=_EPOCH,
        task_queue="simulated",
        task_timeout=timedelta(seconds=5),
        typed_search_attributes=TypedSearchAttributes(search_attributes=[]),
        workflow_id=workflow_id,
        workflow_type=TYPE_NAME,
    )


_NO_ATTRIBUTES: SearchAttributes = {}
