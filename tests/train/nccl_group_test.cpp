// Groups whose workers have CUDA devices of their own, on fakes of the driver and of NCCL.
#include "lessons.hpp"

#include <gpuactors/device/discovery.hpp>
#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/loss.hpp>
#include <gpuactors/kernels/optimizer.hpp>

#include <apps/train/nccl.hpp>
#include <apps/train/training_run.hpp>
#include <support/temporary_folder.hpp>

#include <device/fake_cuda/show_kernels.hpp>
#include <dlfcn.h>
#include <train/fake_nccl/nccl.hpp>

#include <string>
#include <vector>

namespace train::test {

namespace {

namespace fake = gpuactors::fake;

/// What training launches, for the fake driver.
const fake::FakeKernel* find_kernel(const char* entry) {
  using fake::fake_kernel;
  using namespace gpuactors::kernels;
  static const std::vector<fake::FakeKernel> all{
      fake_kernel(gather_rows_f32),
      fake_kernel(gather_rows_f64),
      fake_kernel(bias_rows_f32),
      fake_kernel(bias_rows_f64),
      fake_kernel(bias_relu_f32),
      fake_kernel(bias_relu_f64),
      fake_kernel(bias_gradient_f32),
      fake_kernel(bias_gradient_f64),
      fake_kernel(bias_relu_backward_f32),
      fake_kernel(bias_relu_backward_f64),
      fake_kernel(softmax_cross_entropy_f32),
      fake_kernel(softmax_cross_entropy_f64),
      fake_kernel(sgd_update_f32),
      fake_kernel(sgd_update_f64),
      fake_kernel(momentum_update_f32),
      fake_kernel(momentum_update_f64),
  };
  for (const auto& kernel : all)
    if (kernel.entry == entry)
      return &kernel;
  return nullptr;
}

/// Three fake GPUs.
gpuactors::Cluster embed_cuda() {
  gpuactors::EmbedOptions options;
  options.devices = "cuda";
  auto cluster = must(gpuactors::Cluster::embed(std::move(options)));
  fake::show_kernels(&find_kernel);
  return cluster;
}

template <class F>
F* function_of_nccl(const char* name) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  return reinterpret_cast<F*>(dlsym(library, name));
}

GroupSpec whole_devices(std::size_t workers, const Plan& plan, std::uint64_t epochs) {
  auto spec = group_of(workers, plan, epochs);
  spec.plan.set_nccl(true);
  spec.options.gpus = 1;
  return spec;
}

} // namespace

TEST_CASE("workers on CUDA devices of their own have the losses of one with as large a batch", "[nccl]") {
  auto on_host = embed();
  auto cluster = embed_cuda();
  for (const bool wide : {false, true}) {
    auto lesson = make_lesson(on_host, make_table(500, 12, 4, 1));
    const auto describe = [&](Plan& plan) {
      plan.set_wide(wide);
      plan.set_momentum(wide ? 0.9 : 0);
    };
    describe(lesson.plan);
    lesson.plan.set_batch(48);
    auto single = must(on_host.spawn("trainer", lesson.plan, half()));
    const auto expected = must(follow(single, 12, {}));
    for (const std::size_t workers : {2, 3}) {
      auto here = make_lesson(cluster, make_table(500, 12, 4, 1));
      describe(here.plan);
      here.plan.set_batch(static_cast<std::int64_t>(48 / workers));
      Watcher watcher;
      std::string notice;
      watcher.notice = [&](std::string_view text) { notice = text; };
      const auto group = must(train_group(cluster, whole_devices(workers, here.plan, 12), watcher));
      CHECK(notice == "gradients are summed by NCCL");
      CHECK(group.workers == workers);
      CHECK(worst_difference(group.outcome.losses, expected.losses, 100) < (wide ? 1e-9 : 1e-6));
    }
  }
  CHECK(function_of_nccl<int()>("fake_nccl_live")() == 0);
}

TEST_CASE("no sum is begun before NCCL has made its communicators", "[nccl]") {
  auto cluster = embed_cuda();
  const auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  Watcher watcher;
  std::vector<std::string> notices;
  watcher.notice = [&](std::string_view text) { notices.emplace_back(text); };
  REQUIRE(nccl_version() != 0); // which loads it
  // Longer than it takes to begin: a member that does not ask is too early.
  function_of_nccl<void(int)>("fake_nccl_begin_slowly")(8);
  const auto group = train_group(cluster, whole_devices(2, lesson.plan, 1), watcher);
  function_of_nccl<void(int)>("fake_nccl_begin_slowly")(0);
  CHECK(must(group).outcome.losses.size() == 10);
  CHECK(notices == std::vector<std::string>{"gradients are summed by NCCL"});
}

TEST_CASE("epochs are queued at once: no copy of losses waits for the device", "[nccl]") {
  const auto specs = must(gpuactors::parse_device_specs("cuda"));
  const auto devices = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
  fake::show_kernels(&find_kernel);
  const auto context = must(gpuactors::Context::open(devices.front(), {}));
  const auto table = make_table(500, 12, 4, 1);
  for (const auto dtype : {gpuactors::DType::f32, gpuactors::DType::f64}) {
    TrainingSpec spec;
    spec.trainer.network = {{12, 16, 4}, nn::Activation::relu, dtype, 0.25, 64};
    spec.batch = 16;
    auto training = must(TrainingRun::make(context->stream(), spec, table.features, table.labels));
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(driver != nullptr);
    const auto waiting_copies = reinterpret_cast<int (*)()>(dlsym(driver, "fake_cuda_waiting_copies"));
    REQUIRE(waiting_copies != nullptr);
    const auto before = waiting_copies();
    CHECK(must(training.advance(3 * training.steps_per_epoch(), 100)).epochs == 3);
    CHECK(waiting_copies() == before);
  }
}

TEST_CASE("the orders of epochs take pinned memory for those that are queued at once, and no more", "[nccl]") {
  const auto specs = must(gpuactors::parse_device_specs("cuda"));
  const auto devices = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
  fake::show_kernels(&find_kernel);
  const auto context = must(gpuactors::Context::open(devices.front(), {}));
  constexpr std::int64_t rows = 20'000;
  const auto table = make_table(rows, 12, 4, 1);
  TrainingSpec spec;
  spec.trainer.network = {{12, 4}, nn::Activation::relu, gpuactors::DType::f32, 0.25, 4096};
  spec.batch = 4096;
  auto training = must(TrainingRun::make(context->stream(), spec, table.features, table.labels));
  const auto most_pinned = reinterpret_cast<std::size_t (*)()>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_most_pinned"));
  REQUIRE(most_pinned != nullptr);
  must(training.advance(training.steps_per_epoch(), 100));
  (void)most_pinned();
  const auto before = most_pinned();
  for (int epoch = 0; epoch < 10; ++epoch)
    must(training.advance(training.steps_per_epoch(), 100));
  CHECK(most_pinned() <= before + rows * sizeof(std::int32_t));
}

TEST_CASE("a group that sums by NCCL shrinks or stops when a member dies in an epoch", "[nccl]") {
  auto cluster = embed_cuda();
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  for (const std::size_t rank : {0, 2}) {
    auto spec = whole_devices(3, lesson.plan, 6);
    spec.on_loss = OnLoss::shrink;
    const auto group = must(train_group(cluster, spec, killer(cluster, rank)));
    CHECK(group.workers == 2);
    CHECK(group.outcome.losses.size() == 7 + 5 * 10);
    CHECK(group.outcome.quality.accuracy() > 0.9);
    spec.on_loss = OnLoss::stop;
    const auto stopped = train_group(cluster, spec, killer(cluster, rank));
    REQUIRE_FALSE(stopped);
    CHECK(says(stopped.error(), "worker " + std::to_string(rank) + " of 3 was lost in epoch 2, and the group stops"));
  }
  CHECK(must(cluster.state()).actors().empty());
  CHECK(function_of_nccl<int()>("fake_nccl_live")() == 0);
}

TEST_CASE("a group sums by messages unless it was told that NCCL may", "[nccl]") {
  auto cluster = embed_cuda();
  const auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto spec = whole_devices(2, lesson.plan, 1);
  spec.plan.set_nccl(false);
  Watcher watcher;
  std::string notice;
  watcher.notice = [&](std::string_view text) { notice = text; };
  must(train_group(cluster, spec, watcher));
  CHECK(notice.empty());
}

TEST_CASE("NCCL is not blamed for a checkpoint that cannot be written", "[nccl]") {
  auto cluster = embed_cuda();
  const gpuactors::test::TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  lesson.plan.set_checkpoint(folder.path().string());
  Watcher watcher;
  std::string notice;
  watcher.notice = [&](std::string_view text) { notice = text; };
  CHECK_FALSE(train_group(cluster, whole_devices(2, lesson.plan, 3), watcher));
  CHECK(notice == "gradients are summed by NCCL");
}

TEST_CASE("a group in which NCCL fails goes on by messages", "[nccl]") {
  auto cluster = embed_cuda();
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  const auto fail = function_of_nccl<void(const char*, int)>("fake_nccl_fail");
  for (const auto* function : {"ncclAllReduce", "ncclCommGetAsyncError", "ncclCommInitRankConfig", "ncclGetUniqueId"}) {
    fail(function, 3);
    Watcher watcher;
    std::string notice;
    watcher.notice = [&](std::string_view text) { notice = text; };
    const auto group = train_group(cluster, whole_devices(2, lesson.plan, 3), watcher);
    fail(function, 0);
    CHECK(notice.find(std::string{"NCCL failed in epoch 1 ("} + function + ": it failed (3))") == 0);
    CHECK(must(group).outcome.losses.size() == 30);
  }
}

} // namespace train::test
