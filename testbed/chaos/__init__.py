"""A fleet under faults: nothing lost, nothing counted twice."""
