// A training run by itself: the order of its rows, and that it goes on from any step as if nothing had been.
#include "lessons.hpp"

#include <gpuactors/device/discovery.hpp>
#include <gpuactors/device/faulty.hpp>

#include <apps/train/training_run.hpp>
#include <support/temporary_folder.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace train::test {

using gpuactors::Errc;
namespace faulty = gpuactors::faulty;
using gpuactors::test::TemporaryFolder;

namespace {

TrainingSpec small_training(gpuactors::DType dtype = gpuactors::DType::f32) {
  TrainingSpec spec;
  spec.trainer.network = {{6, 20, 3}, nn::Activation::tanh, dtype, 0.25, 64};
  spec.trainer.optimizer = {.rate = 0.1, .momentum = 0.9};
  spec.batch = 7;
  return spec;
}

/// A run on a device of its own.
struct Study {
  /// @param fails whether the device fails as `plan` says.
  explicit Study(const TrainingSpec& spec, std::int64_t rows = 100, bool fails = false)
    : table(make_table(rows, 6, 3, 1)) {
    const auto specs = must(gpuactors::parse_device_specs("host:1x64MiB"));
    auto device = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test"))).at(0);
    if (fails)
      device = std::make_shared<faulty::FaultyDevice>(device, plan);
    context = must(gpuactors::Context::open(device, {}));
    training.emplace(must(TrainingRun::make(context->stream(), spec, table.features, table.labels)));
  }

  std::vector<double> learn(std::uint64_t steps) {
    std::vector<double> losses;
    while (losses.size() < steps) {
      const auto report = must(training->advance(steps - losses.size(), 100));
      losses.insert(losses.end(), report.losses.begin(), report.losses.end());
    }
    return losses;
  }

  Table table;
  std::shared_ptr<faulty::Plan> plan = std::make_shared<faulty::Plan>();
  std::unique_ptr<gpuactors::Context> context;
  std::optional<TrainingRun> training;
};

} // namespace

TEST_CASE("a run goes on from any step, bit for bit", "[train]") {
  const TemporaryFolder folder;
  for (const auto dtype : {gpuactors::DType::f32, gpuactors::DType::f64}) {
    Study whole{small_training(dtype)};
    CHECK(whole.training->steps_per_epoch() == 12);
    const auto expected = whole.learn(30);
    must(whole.training->save(folder / "whole"));
    for (const std::uint64_t at : {0, 5, 12, 23}) {
      Study first{small_training(dtype)};
      auto losses = first.learn(at);
      must(first.training->save(folder / "part"));
      Study second{small_training(dtype)};
      second.learn(3); // of which nothing must be left
      must(second.training->load(folder / "part"));
      CHECK(second.training->position() == at % 12);
      CHECK(second.training->epochs() == at / 12);
      const auto rest = second.learn(30 - at);
      losses.insert(losses.end(), rest.begin(), rest.end());
      CHECK(losses == expected);
      must(second.training->save(folder / "part"));
      CHECK(read_text(folder / "part") == read_text(folder / "whole"));
    }
  }
}

TEST_CASE("each epoch has another order, which the seed decides", "[train]") {
  auto spec = small_training();
  spec.trainer.optimizer = {.rate = 1e-30}; // losses then tell which rows they are of
  Study first{spec};
  Study same{spec};
  spec.seed = 2;
  Study other{spec};
  const auto losses = first.learn(24);
  const std::vector<double> one{losses.begin(), losses.begin() + 12};
  const std::vector<double> two{losses.begin() + 12, losses.end()};
  CHECK(one != two);
  CHECK(same.learn(24) == losses);
  CHECK(other.learn(24) != losses);
}

TEST_CASE("what was remembered comes back, with its place", "[train]") {
  Study study{small_training()};
  study.learn(12);
  must(study.training->take_snapshot());
  const auto losses = study.learn(8);
  CHECK(study.training->position() == 8);
  must(study.training->restore_snapshot());
  CHECK(study.training->steps() == 12);
  CHECK(study.training->position() == 0);
  CHECK(study.learn(8) == losses);
}

TEST_CASE("a checkpoint of the middle of an epoch needs batches of the same size", "[train]") {
  const TemporaryFolder folder;
  Study study{small_training()};
  study.learn(5);
  must(study.training->save(folder / "middle"));
  study.learn(7);
  must(study.training->save(folder / "end"));
  auto spec = small_training();
  spec.batch = 8;
  Study other{spec};
  CHECK(says(other.training->load(folder / "middle").error(),
             "it is of the middle of an epoch with batches of 7 rows, not 8"));
  must(other.training->load(folder / "end"));
  CHECK(other.training->epochs() == 1);
}

TEST_CASE("a checkpoint of other data is refused, though there are as many rows", "[train]") {
  const TemporaryFolder folder;
  const auto spec = small_training();
  Study study{spec};
  study.learn(12);
  must(study.training->save(folder / "net"));
  // Two rows of one label in each other's place: the split is the same.
  auto moved = study.table;
  std::swap_ranges(moved.features.begin(), moved.features.begin() + 6, moved.features.begin() + 18);
  CHECK(moved.labels[0] == moved.labels[3]);
  auto relabelled = study.table;
  std::swap(relabelled.labels[0], relabelled.labels[1]);
  for (const auto& table : {moved, relabelled}) {
    auto other = must(TrainingRun::make(study.context->stream(), spec, table.features, table.labels));
    const auto loaded = other.load(folder / "net");
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code() == Errc::invalid_argument);
    CHECK(says(loaded.error(), "it was learnt from other data, or from the same rows in another order"));
    CHECK(other.steps() == 0);
  }
  must(study.training->load(folder / "net"));
  // As earlier releases wrote it.
  const auto file = must(nn::read_safetensors(folder / "net"));
  auto metadata = file.metadata;
  CHECK(metadata.erase("training.data_crc32") == 1);
  must(nn::write_safetensors(folder / "old", metadata, file.arrays));
  must(study.training->load(folder / "old"));
}

TEST_CASE("a step that fails gives the rows back only when no copy reads them any more", "[train]") {
  Study study{small_training(), 100, true};
  const auto& table = study.table;
  const auto& plan = study.plan;
  auto& training = *study.training;
  const auto rows = std::span{table.features}.first(5 * 6);
  const auto labels = std::span{table.labels}.first(5);
  plan->reset();
  plan->fail_at(faulty::Call::copy, 2, gpuactors::Error{Errc::copy_failed, "on purpose"});
  const auto loss = training.step_on(rows, labels);
  REQUIRE_FALSE(loss);
  CHECK(loss.error().code() == Errc::copy_failed);
  CHECK(plan->calls(faulty::Call::synchronize) == 1);
  must(training.step_on(rows, labels));
}

TEST_CASE("a snapshot for whose whole there is no memory is none", "[train]") {
  Study study{small_training(), 100, true};
  const auto& plan = study.plan;
  auto& training = *study.training;
  must(training.advance(training.steps_per_epoch(), 100));
  // The weights, and what the optimizer remembers of them.
  plan->reset();
  plan->fail_at(faulty::Call::allocate, 2, gpuactors::Error{Errc::out_of_memory, "on purpose"});
  REQUIRE_FALSE(training.take_snapshot());
  CHECK_FALSE(training.has_snapshot());
  must(training.take_snapshot());
  CHECK(training.has_snapshot());
}

TEST_CASE("a run without rows for the test has nothing to say of its quality", "[train]") {
  auto spec = small_training();
  spec.test_part = 0;
  Study study{spec};
  CHECK(study.training->split().train.size() == 100);
  CHECK(must(study.training->evaluate()).rows == 0);
  spec.test_part = 1;
  CHECK(says(TrainingRun::make(study.context->stream(), spec, study.table.features, study.table.labels).error(),
             "at least 0 and below 1, not 1"));
}

} // namespace train::test
