#ifndef COMM_CUDA_DEVICE_CLOCK_H
#define COMM_CUDA_DEVICE_CLOCK_H

#include "base/status.h"
#include "device/device.h"

/*
 * When places on the devices' streams were reached, by the host's clock. Each device has an anchor,
 * a place whose time the host knows to within some microseconds: it is alone on a stream of its
 * own. As clocks drift apart, anchors that are older than `renew_s` are taken anew.
 *
 * Threads: any.
 */
struct device_clock;

/* Errors: ST_NOMEM, the device's. */
MUST_CHECK enum status device_clock_create(const struct device_ops *device, void *set, int n_ranks,
                                           double renew_s, struct device_clock **out);
void device_clock_destroy(struct device_clock *c); /* takes NULL */

/* As clock_now_s(): when the place was reached that `timer`, of `rank`'s device and done, marks. It
 * was put on its stream at `posted_s` at the earliest. Errors: the device's. */
MUST_CHECK enum status device_clock_read(struct device_clock *c, int rank, void *timer,
                                         double posted_s, double *s);

#endif
