#include "comm/planners.h"

#include <string.h>

static const struct planner_ops *const planners[] = {
    &central_planner, &central_host_planner, &onehop_planner, &mst_planner,
    &be_planner,      &ring_planner,         &lp_planner,     &treepack_planner,
};

const struct planner_ops *planner_at(size_t i)
{
    return i < sizeof planners / sizeof *planners ? planners[i] : NULL;
}

const struct planner_ops *planner_find(const char *name)
{
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        if (strcmp(planner_at(i)->name, name) == 0) {
            return planner_at(i);
        }
    }
    return NULL;
}
