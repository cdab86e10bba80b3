#include "config/config_table.h"

#include <math.h>
#include <string.h>

#define AT(section, field) #section, #field, offsetof(struct config, section.field)
#define NO_MAX INFINITY
#define MAX_BYTES 0x1p40

enum {
    MILLION = 1000000
};

/* clang-format off */
static const struct config_key table[] = {
    {AT(data, dataset), KEY_CHOICE, "fashion-mnist",
     .choices = "fashion-mnist|mnist|cifar10|idx|synthetic",
     .help = "What to train on; `idx` takes any four IDX files, `synthetic` makes learnable "
             "images."},
    {AT(data, path), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL,
     .habits = "dir|data_dir|folder|root",
     .help = "Folder of the files; empty: where the dataset's Debian package puts them."},
    {AT(data, train_images), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL, .habits = "train_x",
     .help = "dataset = idx: file of the training images, relative to `path`."},
    {AT(data, train_labels), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL, .habits = "train_y",
     .help = "dataset = idx: file of the training labels, relative to `path`."},
    {AT(data, test_images), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL,
     .habits = "test_x|val_images",
     .help = "dataset = idx: file of the test images, relative to `path`."},
    {AT(data, test_labels), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL,
     .habits = "test_y|val_labels",
     .help = "dataset = idx: file of the test labels, relative to `path`."},
    {AT(data, classes), KEY_INT, "0", 0, MILLION, .habits = "num_classes|n_classes",
     .help = "Number of classes; 0: what the dataset has."},
    {AT(data, shape), KEY_REALS, "", 1, 65536, KEY_EMPTY | KEY_WHOLE,
     .habits = "input|image_size|size",
     .help = "Synthetic images only: channels, height, width; empty: 3, 32, 32."},
    {AT(data, n_train), KEY_INT, "0", 0, 4e9, .habits = "train_size|num_train",
     .help = "Use only the first so many training images; 0: all (synthetic: 2048)."},
    {AT(data, n_test), KEY_INT, "0", 0, 4e9, .habits = "test_size|num_test",
     .help = "Use only the first so many test images; 0: all (synthetic: 512)."},
    {AT(data, mean), KEY_REALS, "", -1e6, 1e6, KEY_EMPTY,
     .help = "Subtracted from pixels in [0, 1], per channel; empty: the dataset's own."},
    {AT(data, std), KEY_REALS, "", 0, 1e6, KEY_EMPTY | KEY_OPEN_MIN,
     .help = "Pixels are divided by this after `mean`, per channel; empty: the dataset's own."},
    {AT(data, pad_to), KEY_INT, "0", 0, 4096, .habits = "resize|pad",
     .help = "Pad images with zeros to this height and width; 0: as they are."},
    {AT(data, crop_pad), KEY_INT, "0", 0, 1024, .habits = "crop|random_crop",
     .help = "Training: pad by so many pixels and cut out the old size at a random place; 0: off."},
    {AT(data, flip), KEY_BOOL, "no", .habits = "mirror|hflip",
     .help = "Training: mirror every second image, chosen at random."},
    {AT(data, shuffle), KEY_BOOL, "yes",
     .help = "A new order of the training images in every epoch."},
    {AT(data, drop_last), KEY_BOOL, "no",
     .help = "Leave out an epoch's last global batch if it is smaller than the others."},
    {AT(data, prefetch), KEY_INT, "2", 1, 64, KEY_LOCAL, .habits = "num_workers|prefetch_factor",
     .help = "Batches that are made ahead for each device."},

    {AT(model, name), KEY_TEXT, "lenet", .habits = "model|arch|net|network",
     .help = "A network of models/; `--help` lists them."},
    {AT(model, hidden), KEY_REALS, "256, 128", 1, MILLION, KEY_EMPTY | KEY_WHOLE,
     .habits = "widths|layers|units",
     .help = "mlp: the widths of its hidden layers; empty: none."},
    {AT(model, dropout), KEY_REAL, "0", 0, 1, KEY_OPEN_MAX, .habits = "drop|dropout_rate",
     .help = "Fraction of values dropped in training, in the models that have dropout."},
    {AT(model, shortcut), KEY_CHOICE, "projection", .choices = "projection|pad",
     .help = "CIFAR ResNets: shortcuts across a change of shape are 1x1 convolutions, or stride "
             "and zero channels."},

    {AT(train, epochs), KEY_INT, "10", 1, MILLION, .habits = "num_epochs|n_epochs|max_epochs",
     .help = "Passes over the training images."},
    {AT(train, max_steps), KEY_INT, "0", 0, 4e9, .habits = "max_iter|steps|iterations|max_batches",
     .help = "End after so many steps whatever `epochs` says; 0: by `epochs`."},
    {AT(train, batch_per_device), KEY_INT, "0", 0, MILLION,
     .habits = "batch|batch_size|batch_per_rank|micro_batch",
     .help = "Images per device and micro-batch; 0: what `global_batch` makes it, else 64."},
    {AT(train, global_batch), KEY_INT, "0", 0, 4e9,
     .habits = "total_batch|effective_batch|global_batch_size",
     .help = "Images per step: batch_per_device * accum_steps * devices; 0: follows from these."},
    {AT(train, accum_steps), KEY_INT, "1", 1, 65536,
     .habits = "iter_size|accum|accumulate|subdivisions|gradient_accumulation_steps",
     .help = "Micro-batches per device whose gradients are summed before a step."},
    {AT(train, eval_every), KEY_INT, "1", 0, MILLION,
     .habits = "test_interval|eval_interval|validate_every",
     .help = "Evaluate on the test images after every so many epochs; 0: only at the end."},
    {AT(train, seed), KEY_INT, "1", 0, NO_MAX, .habits = "random_seed|manual_seed",
     .help = "Of initial weights, order, augmentation and dropout."},
    {AT(train, on_nan), KEY_CHOICE, "stop", .choices = "stop|skip|ignore", .habits = "nan",
     .help = "When a loss or gradient is not finite: stop with exit code 3, skip the step, or go "
             "on."},
    {AT(train, output), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL,
     .habits = "out|output_dir|run_dir|logdir|snapshot_prefix",
     .help = "Folder for effective config, metrics and summary; empty: "
             "runs/<config>-<date>-<time>."},

    {AT(optim, lr), KEY_REAL, "0.1", 0, NO_MAX, KEY_OPEN_MIN,
     .habits = "learning_rate|base_lr|eta|rate",
     .help = "Learning rate; not multiplied by the number of devices unless `scale_lr` says so."},
    {AT(optim, momentum), KEY_REAL, "0.9", 0, 1, KEY_OPEN_MAX, .habits = "beta|mu",
     .help = "Of stochastic gradient descent; 0: none."},
    {AT(optim, weight_decay), KEY_REAL, "0", 0, 1, .habits = "decay|wd|l2|weight_decay_rate",
     .help = "Added to the gradient as weight_decay * weight."},
    {AT(optim, nesterov), KEY_BOOL, "no",
     .help = "Nesterov's form of momentum."},
    {AT(optim, decay_norm_bias), KEY_BOOL, "yes", .habits = "decay_bias|bias_decay",
     .help = "Weight decay also on biases and on batch-norm's scale and shift."},
    {AT(optim, scale_lr), KEY_BOOL, "no", .habits = "linear_scaling",
     .help = "Multiply the learning rate by the number of devices."},
    {AT(optim, policy), KEY_CHOICE, "fixed", .choices = "fixed|step|multistep|poly|cosine|exp",
     .habits = "lr_policy|schedule|scheduler|lr_schedule",
     .help = "How the learning rate changes after the warm-up."},
    {AT(optim, gamma), KEY_REAL, "0.1", 0, 10, KEY_OPEN_MIN,
     .habits = "lr_gamma|scale|scales|drop_factor|decay_rate",
     .help = "step, multistep, exp: the factor of one decay."},
    {AT(optim, power), KEY_REAL, "1", 0, 100, KEY_OPEN_MIN, .habits = "lr_power|exponent",
     .help = "poly: the exponent."},
    {AT(optim, lr_min), KEY_REAL, "0", 0, NO_MAX, .habits = "min_lr|eta_min|end_lr|final_lr",
     .help = "poly, cosine: the learning rate at the end."},
    {AT(optim, step_epochs), KEY_INT, "10", 1, MILLION, .habits = "stepsize|step_size|step",
     .help = "step: epochs between decays."},
    {AT(optim, milestones), KEY_REALS, "", 0, MILLION, KEY_EMPTY | KEY_OPEN_MIN,
     .habits = "stepvalue|steps|decay_epochs",
     .help = "multistep: the epochs after which the rate decays, ascending."},
    {AT(optim, warmup_epochs), KEY_REAL, "0", 0, MILLION, .habits = "warmup|burn_in|warm_up",
     .help = "The rate rises linearly from `warmup_lr` to `lr` over so many epochs."},
    {AT(optim, warmup_lr), KEY_REAL, "0", 0, NO_MAX, .habits = "warmup_start_lr|start_lr",
     .help = "Learning rate at the start of the warm-up."},
    {AT(optim, loss_scale), KEY_REAL, "0", 0, 1 << 24, .habits = "loss_scaling|init_scale",
     .help = "Gradients are computed so many times larger, for formats of small range, and the sums "
             "divided again. A step whose sums are not finite is skipped, and the factor halved. "
             "0: 65536 with compute = fp16, else 1."},
    {AT(optim, loss_scale_steps), KEY_INT, "2000", 0, 4e9,
     .habits = "growth_interval|scale_window",
     .help = "After so many steps without a skipped one loss_scale is doubled; 0: never."},
    {AT(optim, fuse), KEY_CHOICE, "auto", .choices = "auto|on|off",
     .help = "Update inside the reduction, over one weight arena shared by the devices of a "
             "process."},

    {AT(comm, backend), KEY_TEXT, "onehop", .habits = "algorithm|allreduce|communicator|kvstore",
     .help = "How gradients are summed; `--help` lists the backends; auto: by cost; nccl: by NVIDIA's "
             "library, on GPUs."},
    {AT(comm, overlap), KEY_BOOL, "yes",
     .help = "Communicate while backward still computes."},
    {AT(comm, buckets), KEY_CHOICE, "size", .choices = "size|layer|one|merge",
     .habits = "bucketing|bucket",
     .help = "How layers are grouped into messages: up to a size, one each, all in one, or by "
             "measured cost."},
    {AT(comm, bucket_bytes), KEY_BYTES, "25M", 1, MAX_BYTES,
     .habits = "bucket_mb|bucket_size|fusion_threshold|fusion_threshold_mb|bucket_cap_mb",
     .help = "buckets = size: the size of a bucket."},
    {AT(comm, first_bucket_bytes), KEY_BYTES, "1M", 1, MAX_BYTES,
     .habits = "first_bucket_mb|first_bucket",
     .help = "buckets = size: the size of the first bucket, which is sent first."},
    {AT(comm, bucket_layers), KEY_REALS, "", 1, MILLION, KEY_EMPTY | KEY_WHOLE,
     .help = "buckets = merge: how many layers each bucket takes, in the order of backward; empty: "
             "measured in the first steps, after which this key is printed."},
    {AT(comm, chunk_bytes), KEY_BYTES, "0", 0, MAX_BYTES,
     .habits = "segment_bytes|chunk_size|segment_size|chunk",
     .help = "Unit of pipelining inside a tree; 0: from the cost model."},
    {AT(comm, chunks), KEY_TEXT, "", .flags = KEY_EMPTY, .habits = "tune|autotune|tune_chunks",
     .help = "Chunks by size of message, instead of `chunk_bytes`: `64K:4K, 1M:128K`; tune: found by "
             "measuring in the first steps, after which this key is printed."},
    {AT(comm, timeout_s), KEY_REAL, "60", 0, 1e6, KEY_OPEN_MIN, .habits = "timeout|comm_timeout",
     .help = "Seconds that a rank waits for another one before all of them stop."},
    {AT(comm, topology), KEY_TEXT, "", .flags = KEY_EMPTY, .habits = "topo|topology_file",
     .help = "A name in topologies/ or a .topo file; host: this machine's cores; auto: of GPUs, what "
             "the driver says; empty, and auto of CPU devices: all devices linked through the "
             "host's memory."},
    {AT(comm, plan), KEY_TEXT, "", .flags = KEY_EMPTY, .habits = "plan_file",
     .help = "A plan file to use; empty: the backend makes one."},
    {AT(comm, treepack), KEY_TEXT, "exact",
     .help = "How treepack packs: exact; k=N trees per root; mwu [eps=E] [threshold=T], Blink's "
             "approximation; hybrid=KINDS [switch-us=X], links of these kinds and all others at "
             "once; three-phase, for several servers."},
    {AT(comm, fabric), KEY_CHOICE, "memory", .choices = "memory|emulate",
     .habits = "network|transport",
     .help = "Copies at the speed of memory, or held to the topology's link speeds."},
    {AT(comm, fabric_scale), KEY_REAL, "1", 0, 1e9, KEY_OPEN_MIN, .habits = "time_scale",
     .help = "fabric = emulate: links are so many times slower than the topology says."},
    {AT(comm, fabric_startup_us), KEY_REAL, "0", 0, 1e6,
     .help = "fabric = emulate: microseconds for which every message keeps its links besides the "
             "time for its bytes, before scaling."},
    {AT(comm, workers), KEY_INT, "-1", -1, 4096, KEY_LOCAL, .habits = "comm_threads|threads",
     .help = "Threads that move data besides the devices' own; -1: chosen."},
    {AT(comm, order), KEY_CHOICE, "fifo", .choices = "fifo|priority", .habits = "scheduling",
     .help = "Which bucket is moved first: the oldest, or the one the next forward pass needs "
             "first."},
    {AT(comm, credit_bytes), KEY_BYTES, "0", 0, MAX_BYTES, .habits = "credit|partition_bytes",
     .help = "fabric = emulate: bytes in flight at a time, without which order = priority has "
             "little to put in order; 0: no limit."},
    {AT(comm, wire), KEY_CHOICE, "fp32", .choices = "fp32|bf16",
     .habits = "gradient_dtype|compression|wire_dtype",
     .help = "Format in which gradients travel and are summed; bf16 halves the bytes, and rounds "
             "each sum on the way."},
    {AT(comm, sync), KEY_CHOICE, "allreduce", .choices = "allreduce|reduce-broadcast",
     .habits = "collective",
     .help = "Sum gradients on every device, or reduce them to rank 0 and broadcast the new "
             "weights."},
    {AT(comm, nccl), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL, .habits = "nccl_library",
     .help = "backend = nccl: the library to load; empty: libnccl.so.2 where it is installed."},
    {AT(comm, nccl_log), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL, .habits = "nccl_debug_file",
     .help = "backend = nccl: file in which the library writes which links, channels and algorithms "
             "it chose; empty: none."},

    {AT(device, type), KEY_CHOICE, "cpu", .choices = "cpu|cuda", .habits = "kind",
     .help = "What computes."},
    {AT(device, count), KEY_INT, "1", 1, 1024,
     .habits = "devices|n_devices|ngpu|gpus|nproc|world_size",
     .help = "Number of devices."},
    {AT(device, threads_per_device), KEY_INT, "0", 0, 4096, KEY_LOCAL,
     .habits = "threads|num_threads|omp_num_threads",
     .help = "Threads of each CPU device; 0: cores / devices."},
    {AT(device, pin), KEY_BOOL, "no", .flags = KEY_LOCAL, .habits = "affinity|bind",
     .help = "Bind the threads of a CPU device to cores of its own."},
    {AT(device, compute), KEY_CHOICE, "fp32", .choices = "fp32|bf16|fp16",
     .habits = "dtype|precision|amp",
     .help = "Format of the arithmetic; the weights that are updated are always fp32. fp16 is for "
             "GPUs."},
    {AT(device, tf32), KEY_BOOL, "no", .habits = "allow_tf32",
     .help = "GPUs: factors of fp32 products are rounded to TF32's 10 bits, which is faster."},
    {AT(device, oversubscribe), KEY_BOOL, "no", .habits = "share|share_gpu",
     .help = "GPUs: several devices of a training may be the same GPU, in turn."},
    {AT(device, tuning), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL, .habits = "tuning_file",
     .help = "File of timed algorithms, `tuning.txt` of a run, whose choices are made again; empty: "
             "what this user's runs on this machine have timed."},
    {AT(device, graph), KEY_CHOICE, "auto", .choices = "auto|off",
     .habits = "graphs|cuda_graph|cuda_graphs|capture",
     .help = "GPUs: what a pass puts on the stream is captured into graphs, one for each stretch "
             "between two buckets, and replayed in later steps."},

    {AT(log, log_every), KEY_INT, "50", 0, 4e9, KEY_LOCAL,
     .habits = "display|log_interval|print_freq|print_every",
     .help = "Print a line every so many steps where there is no progress bar; 0: only once an "
             "epoch."},
    {AT(log, progress), KEY_CHOICE, "auto", .flags = KEY_LOCAL, .choices = "auto|on|off",
     .habits = "progress_bar|verbose",
     .help = "A progress bar; auto: on a terminal."},
    {AT(log, trace), KEY_TEXT, "", .flags = KEY_EMPTY | KEY_LOCAL,
     .habits = "timeline|trace_file|profile",
     .help = "File for a Chrome trace of compute and communication; empty: none."},
    {AT(log, trace_first), KEY_INT, "0", 0, 4e9, KEY_LOCAL, .habits = "trace_start",
     .help = "First step in the trace."},
    {AT(log, trace_steps), KEY_INT, "10", 0, 4e9, KEY_LOCAL, .habits = "trace_end",
     .help = "Number of steps in the trace."},

    {AT(debug, inject), KEY_TEXT, "", .flags = KEY_EMPTY, .habits = "fault|faults",
     .help = "Faults to plant, comma-separated: nan, weight, fail, kill, corrupt or skip as "
             "`kind:rank@step`, stall or slow as `kind:rank@step:duration` (`30s`, `5ms`); steps "
             "from 1, `*` is every step."},
    {AT(debug, verify_every), KEY_INT, "0", 0, 4e9, .habits = "verify|check_every",
     .help = "Every so many steps compare the sums with those of an independent addition in the "
             "order of the devices, and the weights of all devices; 0: never."},
};
/* clang-format on */

static const struct {
    const char *section, *help;
} sections[] = {
    {"data", "The images, how they are split over steps, and their augmentation."},
    {"model", "The network."},
    {"train", "Length of the training, batch sizes, evaluation, results."},
    {"optim", "Stochastic gradient descent and its learning rate."},
    {"comm", "How gradients are summed over the devices."},
    {"device", "What computes, and how many of it."},
    {"log", "What is printed and recorded."},
    {"debug", "Checks and injected faults."},
};

size_t config_table_n(void)
{
    return sizeof table / sizeof table[0];
}

const struct config_key *config_table_at(size_t i)
{
    return &table[i];
}

size_t config_table_find(const char *section, const char *name)
{
    size_t i = 0;

    while (i < config_table_n() &&
           (strcmp(table[i].section, section) != 0 || strcmp(table[i].name, name) != 0)) {
        i++;
    }
    return i;
}

const char *config_table_section_help(const char *section)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (strcmp(sections[i].section, section) == 0) {
            return sections[i].help;
        }
    }
    return NULL;
}

bool config_table_has_section(const char *section)
{
    return config_table_section_help(section) != NULL;
}
