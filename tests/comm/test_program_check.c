/* The check of programs finds what is wrong. */
#include "comm/program.h"
#include "grid.h"

/* Break a program in one way; false if there is no such thing in it. */
static bool break_program(struct program *p, int how)
{
    struct program_tree *t = &p->trees[p->n_trees - 1];
    struct program_op *ops = &p->ops[t->op], *last = &ops[t->n_ops - 1];
    struct program_op *with_next = NULL;

    for (size_t i = 0; i < t->n_ops; i++) {
        with_next = ops[i].n_next > 0 ? &ops[i] : with_next;
    }
    switch (how) {
    case 0: /* an operation is missing */
        t->n_ops--;
        for (size_t i = 0; i < t->n_ops; i++) {
            for (int k = 0; k < ops[i].n_next; k++) {
                if (p->ints[ops[i].next + (size_t)k] == (int)t->n_ops) {
                    p->ints[ops[i].next + (size_t)k] =
                        p->ints[ops[i].next + (size_t)--ops[i].n_next];
                }
            }
        }
        return true;
    case 1: /* a dependency is missing, and the counter agrees */
        if (with_next != NULL) {
            ops[p->ints[with_next->next + (size_t)--with_next->n_next]].n_deps--;
        }
        return with_next != NULL;
    case 2: /* the counter does not agree */
        last->n_deps++;
        return true;
    case 3: /* a buffer is used before it is given */
        for (size_t i = 0; i < t->n_ops; i++) {
            if (ops[i].n_posts > 0) {
                ops[i].n_posts--;
                ops[i].n_deps--;
                return true;
            }
        }
        return false;
    case 4: /* a contribution counts twice */
        p->refs[ops[0].src + (size_t)ops[0].n_src - 1] = p->refs[ops[0].src];
        return ops[0].n_src > 1;
    case 5: /* something else is written */
        p->refs[last->dst].node = (p->refs[last->dst].node + 1) % p->n_ranks;
        return true;
    case 6: /* chunks overlap */
        t->offset--;
        return true;
    case 7: /* the last elements are lost */
        t->n--;
        return true;
    case 8: /* a rank's memory is touched behind its back */
        last->n_ranks--;
        return true;
    case 9: /* a mean without a division, a sum with one */
        for (size_t i = 0; i < t->n_ops; i++) {
            if (ops[i].n_src > 1) {
                ops[i].finish = !ops[i].finish;
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

Test(program, check_catches_every_mutation)
{
    int tried[10] = {0};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int k = 0; k < 10 * 8; k++) {
            struct topo *t = grid_mesh(5);
            struct plan *plan = grid_plan(planner_at(b)->name, t, COLL_ALLREDUCE, -1);
            struct program_spec spec = {
                DTYPE_F32, k / 10 % 2 ? REDOP_MEAN : REDOP_SUM, k / 20 % 2, k / 40 % 2, 200, 80};
            struct program *p = grid_program(plan, &spec);
            cr_assert_eq(program_check(p, plan), ST_OK);
            if (break_program(p, k % 10)) {
                tried[k % 10]++;
                cr_assert_eq(program_check(p, plan), ST_INTERNAL, "%s mutation %d fuse=%d",
                             plan->backend, k % 10, spec.fuse);
            }
            program_destroy(p);
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
    for (int how = 0; how < 10; how++) {
        cr_assert_gt(tried[how], 0, "mutation %d was never possible", how);
    }
}
