"""Predicted errors and the choice of sizes, before there is any reading."""

from pansketch.planning.distinct_sample_size import (
    ESTIMATORS,
    ID_BYTES,
    Budget,
    Estimator,
    best_split,
    error_bound,
    mean_squared_error,
    sample_size,
)
from pansketch.planning.distinct_table import DistinctPlan, DistinctWanted, distinct_plans
from pansketch.planning.expected_errors import Errors
from pansketch.planning.first_answer import windows_needed
from pansketch.planning.hierarchy_planner import (
    HierarchyPlan,
    StatedSizes,
    hierarchy_plans,
    plan_hierarchy,
)
from pansketch.planning.selection import Answering, Expected, NoPlan
from pansketch.planning.view_plan import StatedViews, ViewNames, ViewPlan
from pansketch.planning.view_planner import plan_views, view_plans

__all__ = [
    "ESTIMATORS",
    "ID_BYTES",
    "Answering",
    "Budget",
    "DistinctPlan",
    "DistinctWanted",
    "Errors",
    "Estimator",
    "Expected",
    "HierarchyPlan",
    "NoPlan",
    "StatedSizes",
    "StatedViews",
    "ViewNames",
    "ViewPlan",
    "best_split",
    "distinct_plans",
    "error_bound",
    "hierarchy_plans",
    "mean_squared_error",
    "plan_hierarchy",
    "plan_views",
    "sample_size",
    "view_plans",
    "windows_needed",
]
