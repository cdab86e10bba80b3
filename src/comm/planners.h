#ifndef COMM_PLANNERS_H
#define COMM_PLANNERS_H

#include "comm/plan.h"

/* Every planner, each in the file of its name. The array in planners.c lists what is registered. */
extern const struct planner_ops central_planner;
extern const struct planner_ops central_host_planner;
extern const struct planner_ops onehop_planner;
extern const struct planner_ops ring_planner;
extern const struct planner_ops mst_planner;
extern const struct planner_ops be_planner;
extern const struct planner_ops lp_planner;
extern const struct planner_ops treepack_planner;

#endif
