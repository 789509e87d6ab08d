"""Planners, which make an agent plan before it acts."""

from durable_adk.planners.base_planner import BasePlanner
from durable_adk.planners.built_in_planner import BuiltInPlanner
from durable_adk.planners.plan_re_act_planner import PlanReActPlanner

__all__ = ["BasePlanner", "BuiltInPlanner", "PlanReActPlanner"]
