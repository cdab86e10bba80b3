/* Real images, where they are installed: 200 steps of LeNet see a third of Fashion-MNIST. */
#include "fixture.h"

TestSuite(learn, .init = scratch_make, .fini = scratch_remove);

Test(learn, lenet_on_fashion_mnist)
{
    const char *const more[] = {"data.dataset=fashion-mnist",
                                "data.shape=",
                                "data.classes=0",
                                "data.n_train=0",
                                "data.n_test=2000",
                                "model.name=lenet",
                                "optim.lr=0.02",
                                "train.batch_per_device=32",
                                "device.count=2",
                                "train.max_steps=200",
                                "comm.bucket_bytes=1M",
                                NULL};
    struct outcome o;

    if (access("/usr/share/datasets/fashion-mnist", F_OK) != 0) {
        cr_skip_test("dataset-fashion-mnist is not installed");
    }
    o = run_ok(more);
    cr_assert_eq(o.summary.test_n, 2000);
    cr_assert_geq(o.summary.top1, 0.70, "top-1 is %g", o.summary.top1);
    free(o.weights);
}

Test(learn, synthetic_images_are_learnt)
{
    const char *const more[] = {"train.epochs=40", "device.count=2", "train.batch_per_device=8",
                                "optim.fuse=off", NULL};
    struct outcome o = run_ok(more);

    cr_assert_lt(o.summary.train_loss, 0.5 * log(4), "%g", o.summary.train_loss);
    free(o.weights);
}
