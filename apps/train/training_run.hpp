// A training run on one device: the data, the order in which they come, and how far it is.
//
// Everything that happens is decided by the spec and the data: two runs that are alike learn the same, bit for bit
// on host devices of equal shares, whether they run in one piece or go on from checkpoints.
#pragma once

#include "split.hpp"

#include <gpuactors/collective/collective.hpp>

#include <apps/nn/checkpoint.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace train {

/// What is learnt, and how. A plain value.
struct TrainingSpec {
  nn::TrainerSpec trainer;
  /// Decides initial weights and the order of rows in each epoch.
  std::uint64_t seed = 1;
  /// Decides which rows are for the test.
  std::uint64_t split_seed = 1;
  double test_part = 0.2;
  /// Rows of one step, for each member.
  std::int64_t batch = 64;
};

/// Which part of each batch a training works on: one of several members that share it. A plain value.
struct Membership {
  std::int64_t rank = 0;
  std::int64_t members = 1;
};

/// What some steps have brought: their losses, in order. Of several members, the sum of what they report counts.
struct StepReport {
  /// Epochs that are over, and updates that were made, after it.
  std::uint64_t epochs = 0;
  std::uint64_t steps = 0;
  /// The mean loss of each batch, before its update.
  std::vector<double> losses;
  /// Rows that were learnt from.
  std::uint64_t rows = 0;
};

/// How good a network is on the rows that are for the test. A plain value.
struct Quality {
  double loss = 0;
  double accuracy = 0;
  std::int64_t rows = 0;
};

/// Movable; used on the thread of its stream.
class TrainingRun {
public:
  /// Features are rows x inputs, labels one a row. Both are on the device afterwards, in the type of the network.
  /// @returns `invalid_argument` when data and network do not fit, `out_of_memory`.
  static gpuactors::Result<TrainingRun> make(gpuactors::Stream& stream, const TrainingSpec& spec,
                                             std::span<const float> features, std::span<const std::int32_t> labels);

  /// Makes at most `most` steps, not beyond the end of epoch `last_epoch`, and waits for them once.
  gpuactors::Result<StepReport> advance(std::uint64_t most, std::uint64_t last_epoch);

  /// One step on other rows than those of the training: returns their mean loss before it.
  gpuactors::Result<double> step_on(std::span<const float> features, std::span<const std::int32_t> labels);

  gpuactors::Result<Quality> evaluate();

  /// Writes a checkpoint; see `nn::save_training`. `loss` is that of the last batch, for one of several members, which
  /// does not know it.
  /// @returns `task_failed`, without touching the file, when the loss or a parameter is no finite number any more.
  gpuactors::Result<void> save(const std::filesystem::path& path, std::optional<double> loss = {});
  /// Goes on where a checkpoint says, also in the middle of an epoch.
  /// @returns as `nn::load_training`, and `invalid_argument` when it is of other data or seeds.
  gpuactors::Result<void> load(const std::filesystem::path& path);

  /// Epochs that are over.
  [[nodiscard]] std::uint64_t epochs() const noexcept {
    return epoch_;
  }

  [[nodiscard]] std::uint64_t steps() const noexcept {
    return trainer_.steps();
  }

  [[nodiscard]] std::uint64_t steps_per_epoch() const;

  /// Steps of the epoch under way that were made.
  [[nodiscard]] std::uint64_t position() const noexcept {
    return position_;
  }

  /// The loss of the last batch before its update, if it was brought: it is not known to one of several members.
  [[nodiscard]] std::optional<double> last_loss() const noexcept {
    return last_loss_;
  }

  [[nodiscard]] const Split& split() const noexcept {
    return split_;
  }

  [[nodiscard]] const TrainingSpec& spec() const noexcept {
    return spec_;
  }

  // -- as one of several -----------------------------------------------------------------------

  /// Sets which part of each batch it works on. At the beginning of an epoch only.
  void join(const Membership& membership);

  /// The first half of the next step: leaves the gradients of its rows in `trainer().gradient()`.
  gpuactors::Result<void> compute_gradient();
  /// The second half, once the gradient is that of all members.
  gpuactors::Result<void> update();
  /// What has been brought since the epoch began. Waits for the stream.
  gpuactors::Result<StepReport> report();

  /// Keeps a copy of all that learning changes, and goes back to it.
  gpuactors::Result<void> take_snapshot();
  gpuactors::Result<void> restore_snapshot();

  [[nodiscard]] bool has_snapshot() const noexcept {
    return !snapshot_.empty();
  }

  /// Puts what the member `root` has learnt, which is at the beginning of an epoch, in the place of everybody's own: an
  /// operation of all members.
  gpuactors::Result<void> take_over(gpuactors::Collective& peers, std::size_t root);

  [[nodiscard]] nn::Trainer& trainer() noexcept {
    return trainer_;
  }

private:
  /// Rows of the training part from `begin` to before `end`, as they come in this epoch.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  TrainingRun(gpuactors::Stream& stream, const TrainingSpec& spec, nn::Trainer trainer, Split split)
    : stream_(&stream), spec_(spec), trainer_(std::move(trainer)), split_(std::move(split)) {
    // nop
  }

  gpuactors::Result<void> load_data(std::span<const float> features, std::span<const std::int32_t> labels);
  gpuactors::Result<void> begin_epoch();
  /// The rows of step `step` of an epoch: of all members, and of this one.
  [[nodiscard]] Range batch_rows(std::uint64_t step) const;
  [[nodiscard]] Range own_rows(std::uint64_t step) const;
  void end_epoch_if_over();

  /// Steps of one epoch that were queued, and what they left on the host once the stream has got there.
  struct Segment {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    gpuactors::HostBuffer losses;
  };

  /// Has the losses of steps of this epoch brought to the host.
  gpuactors::Result<void> fetch_losses(Segment& segment, std::uint64_t first, std::uint64_t count);
  /// Adds the losses of a segment that has arrived.
  void collect(const Segment& segment, StepReport& report);
  [[nodiscard]] void* loss_at(std::int64_t row) const;
  [[nodiscard]] const std::int32_t* order_at(std::int64_t row) const;
  template <class T>
  gpuactors::Result<Quality> evaluate_as();
  /// Fails when what was learnt has diverged.
  gpuactors::Result<void> check_numbers(std::optional<double> loss);
  template <class T>
  gpuactors::Result<bool> has_numbers_as();

  gpuactors::Stream* stream_;
  TrainingSpec spec_;
  nn::Trainer trainer_;
  Split split_;
  /// Of all rows, for checkpoints.
  std::string data_checksum_;
  Membership membership_;
  gpuactors::Tensor features_;
  gpuactors::Tensor labels_;
  /// The rows of an epoch in its order.
  gpuactors::Tensor order_;
  /// Where orders and losses of epochs that are under way at once lie on the host; in turns. In pinned memory: a copy
  /// to or from any other may wait for the stream, and no epoch would be queued before the one before it is over.
  std::vector<gpuactors::HostBuffer> orders_;
  std::vector<Segment> segments_;
  std::size_t next_order_ = 0;
  /// The loss of each row, in the order of the epoch.
  gpuactors::Tensor losses_;
  /// The rows for the test.
  gpuactors::Tensor test_order_;
  std::vector<std::int32_t> test_labels_;
  /// Rows that are not of the order: for evaluations and single steps.
  gpuactors::Tensor some_x_;
  gpuactors::Tensor some_labels_;
  gpuactors::Tensor logits_;
  std::vector<gpuactors::Tensor> snapshot_;
  std::uint64_t snapshot_steps_ = 0;
  std::uint64_t snapshot_epoch_ = 0;
  std::uint64_t epoch_ = 0;
  /// Steps of this epoch that were made, and whether its order is on the device.
  std::uint64_t position_ = 0;
  bool ordered_ = false;
  std::optional<double> last_loss_;
};

} // namespace train
