#include "training_run.hpp"

#include <gpuactors/kernels/layers.hpp>

#include <apps/nn/copies.hpp>
#include <apps/nn/random.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace train {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Rows that go through the network at once in an evaluation, at least.
constexpr std::int64_t evaluated_at_once = 256;

/// Epochs that may be queued before the stream is waited for.
constexpr std::size_t epochs_at_once = 32;

/// Tells the shuffles of epochs from the random numbers of initial weights.
constexpr std::uint64_t shuffle_seed = 0x5EED5EED;

constexpr auto epoch_note = "training.epoch";
constexpr auto position_note = "training.position";
constexpr auto batch_note = "training.batch";
constexpr auto data_note = "training.data";
constexpr auto checksum_note = "training.data_crc32";
constexpr auto loss_note = "training.loss";

std::string checksum_of(std::span<const float> features, std::span<const std::int32_t> labels) {
  auto sum = crc32_z(0, nullptr, 0);
  for (const auto bytes : {std::as_bytes(features), std::as_bytes(labels)})
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return fmt::format("{:08x}", sum);
}

/// What a checkpoint goes on with: the same rows, cut and ordered the same way.
std::string describe_data(const TrainingSpec& spec, const Split& split) {
  return fmt::format("train={} test={} split_seed={} seed={}", split.train.size(), split.test.size(), spec.split_seed,
                     spec.seed);
}

Result<gpuactors::Tensor> upload_as(gpuactors::Stream& stream, DType dtype, std::span<const float> values,
                                    std::vector<std::int64_t> shape) {
  if (dtype == DType::f64)
    return stream.tensor_from(std::vector<double>(values.begin(), values.end()), std::move(shape));
  return stream.tensor_from(values, std::move(shape));
}

/// Loss and whether the largest output is the label's, for one row of outputs.
template <class T>
std::pair<double, bool> judge(const T* outputs, std::int64_t count, std::int32_t label) {
  const auto* best = std::max_element(outputs, outputs + count);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += std::exp(static_cast<double>(outputs[i]) - static_cast<double>(*best));
  return {std::log(sum) + static_cast<double>(*best) - static_cast<double>(outputs[label]),
          best == outputs + label && !std::isnan(outputs[label])};
}

Result<void> check_labels(std::span<const std::int32_t> labels, std::int64_t outputs) {
  for (const auto label : labels)
    if (label < 0 || label >= outputs)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("there is a label {}, but the network has {} outputs: it takes labels from 0 "
                                         "to {}",
                                         label, outputs, outputs - 1));
  return {};
}

} // namespace

// -- data ----------------------------------------------------------------------------------------

Result<TrainingRun> TrainingRun::make(gpuactors::Stream& stream, const TrainingSpec& given,
                                      std::span<const float> features, std::span<const std::int32_t> labels) {
  auto spec = given;
  if (spec.batch < 1 || spec.batch > std::numeric_limits<std::int32_t>::max())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("a batch has at least 1 row, not {}", spec.batch));
  if (!(spec.test_part >= 0 && spec.test_part < 1))
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("the part for the test is at least 0 and below 1, not {}", spec.test_part));
  auto& network = spec.trainer.network;
  network.max_rows = std::max(spec.batch, evaluated_at_once);
  GPUACTORS_TRY(nn::check(network));
  const auto rows = static_cast<std::int64_t>(labels.size());
  if (rows == 0 || features.size() / labels.size() != static_cast<std::size_t>(network.inputs())
      || features.size() % labels.size() != 0)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("the network has {} inputs and the data have {} rows of {} numbers",
                                       network.inputs(), rows,
                                       rows == 0 ? 0 : features.size() / static_cast<std::size_t>(rows)));
  GPUACTORS_TRY(check_labels(labels, network.outputs()));
  auto split = stratified_split(labels, spec.test_part, spec.split_seed);
  if (split.train.empty())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("of {} rows none is left to learn from", labels.size()));
  GPUACTORS_LET(trainer, nn::Trainer::make(stream, spec.trainer, spec.seed));
  TrainingRun training{stream, spec, std::move(trainer), std::move(split)};
  training.data_checksum_ = checksum_of(features, labels);
  GPUACTORS_TRY(training.load_data(features, labels));
  return training;
}

Result<void> TrainingRun::load_data(std::span<const float> features, std::span<const std::int32_t> labels) {
  const auto& network = spec_.trainer.network;
  const auto rows = static_cast<std::int64_t>(labels.size());
  const auto learnt = static_cast<std::int64_t>(split_.train.size());
  GPUACTORS_LET(x, upload_as(*stream_, network.dtype, features, {rows, network.inputs()}));
  GPUACTORS_LET(all_labels, stream_->tensor_from(labels, {rows}));
  GPUACTORS_LET(order, stream_->tensor(DType::i32, {learnt}));
  GPUACTORS_LET(losses, stream_->tensor(network.dtype, {learnt}));
  GPUACTORS_LET(some_x, stream_->tensor(network.dtype, {network.max_rows, network.inputs()}));
  GPUACTORS_LET(some_labels, stream_->tensor(DType::i32, {network.max_rows}));
  GPUACTORS_LET(logits, stream_->tensor(network.dtype, {network.max_rows, network.outputs()}));
  features_ = std::move(x);
  labels_ = std::move(all_labels);
  order_ = std::move(order);
  losses_ = std::move(losses);
  some_x_ = std::move(some_x);
  some_labels_ = std::move(some_labels);
  logits_ = std::move(logits);
  if (!split_.test.empty()) {
    GPUACTORS_LET(test, stream_->tensor_from(split_.test, {static_cast<std::int64_t>(split_.test.size())}));
    test_order_ = std::move(test);
    for (const auto row : split_.test)
      test_labels_.push_back(labels[static_cast<std::size_t>(row)]);
  }
  return {};
}

void* TrainingRun::loss_at(std::int64_t row) const {
  return static_cast<std::byte*>(losses_.raw())
         + static_cast<std::size_t>(row) * gpuactors::size_of(spec_.trainer.network.dtype);
}

const std::int32_t* TrainingRun::order_at(std::int64_t row) const {
  return static_cast<const std::int32_t*>(order_.raw()) + row;
}

// -- order ---------------------------------------------------------------------------------------

std::uint64_t TrainingRun::steps_per_epoch() const {
  const auto whole = spec_.batch * membership_.members;
  return static_cast<std::uint64_t>((losses_.size() + whole - 1) / whole);
}

TrainingRun::Range TrainingRun::batch_rows(std::uint64_t step) const {
  const auto whole = spec_.batch * membership_.members;
  const auto begin = static_cast<std::int64_t>(step) * whole;
  return {begin, std::min(begin + whole, losses_.size())};
}

TrainingRun::Range TrainingRun::own_rows(std::uint64_t step) const {
  const auto all = batch_rows(step);
  const auto cut = [&](std::int64_t rank) { return all.begin + (all.end - all.begin) * rank / membership_.members; };
  return {cut(membership_.rank), cut(membership_.rank + 1)};
}

void TrainingRun::join(const Membership& membership) {
  membership_ = membership;
}

Result<void> TrainingRun::begin_epoch() {
  if (ordered_)
    return {};
  // From the same beginning in each epoch, so that it can be found again without those before it.
  orders_.resize(std::max(orders_.size(), next_order_ + 1));
  auto& buffer = orders_[next_order_];
  if (buffer.bytes() == 0) {
    GPUACTORS_LET(made, stream_->context().host_buffer(split_.train.size() * sizeof(std::int32_t)));
    buffer = std::move(made);
  }
  next_order_ = (next_order_ + 1) % epochs_at_once;
  const auto order = buffer.span<std::int32_t>();
  std::copy(split_.train.begin(), split_.train.end(), order.begin());
  nn::Random random{spec_.seed ^ shuffle_seed, epoch_};
  nn::shuffle(order, random);
  GPUACTORS_TRY(stream_->upload(order_, order));
  ordered_ = true;
  return {};
}

// -- steps ---------------------------------------------------------------------------------------

Result<void> TrainingRun::compute_gradient() {
  GPUACTORS_TRY(begin_epoch());
  const auto all = batch_rows(position_);
  const auto own = own_rows(position_);
  if (own.begin == own.end)
    return trainer_.clear_gradient();
  return trainer_.compute_gradient({own.end - own.begin, features_.raw(), labels_.raw(), order_at(own.begin),
                                    all.end - all.begin, loss_at(own.begin)});
}

Result<void> TrainingRun::update() {
  GPUACTORS_TRY(trainer_.update());
  ++position_;
  last_loss_.reset();
  return {};
}

void TrainingRun::end_epoch_if_over() {
  if (position_ < steps_per_epoch())
    return;
  position_ = 0;
  ordered_ = false;
  ++epoch_;
}

Result<StepReport> TrainingRun::advance(std::uint64_t most, std::uint64_t last_epoch) {
  std::size_t used = 0;
  while (most > 0 && epoch_ < last_epoch && used < epochs_at_once) {
    const auto first = position_;
    const auto count = std::min(most, steps_per_epoch() - first);
    for (std::uint64_t i = 0; i < count; ++i) {
      GPUACTORS_TRY(compute_gradient());
      GPUACTORS_TRY(update());
    }
    segments_.resize(std::max(segments_.size(), used + 1));
    GPUACTORS_TRY(fetch_losses(segments_[used++], first, count));
    end_epoch_if_over();
    most -= count;
  }
  GPUACTORS_TRY(stream_->synchronize());
  next_order_ = 0; // the orders are all on the device
  StepReport report;
  for (std::size_t i = 0; i < used; ++i)
    collect(segments_[i], report);
  report.epochs = epoch_;
  report.steps = trainer_.steps();
  return report;
}

Result<StepReport> TrainingRun::report() {
  segments_.resize(std::max<std::size_t>(segments_.size(), 1));
  auto& segment = segments_.front();
  GPUACTORS_TRY(fetch_losses(segment, 0, position_));
  GPUACTORS_TRY(stream_->synchronize());
  next_order_ = 0;
  StepReport report;
  collect(segment, report);
  end_epoch_if_over();
  report.epochs = epoch_;
  report.steps = trainer_.steps();
  return report;
}

Result<void> TrainingRun::fetch_losses(Segment& segment, std::uint64_t first, std::uint64_t count) {
  segment.first = first;
  segment.count = count;
  if (count == 0)
    return {};
  const auto begin = batch_rows(first).begin;
  const auto end = batch_rows(first + count - 1).end;
  // Of a whole epoch, so that it is never replaced while a copy is under way.
  if (segment.losses.bytes() == 0) {
    GPUACTORS_LET(losses, stream_->context().host_buffer(losses_.bytes()));
    segment.losses = std::move(losses);
  }
  return stream_->download(segment.losses.data(), loss_at(begin),
                           static_cast<std::size_t>(end - begin) * gpuactors::size_of(losses_.dtype()));
}

void TrainingRun::collect(const Segment& segment, StepReport& report) {
  const auto begin = batch_rows(segment.first).begin;
  const auto value = [&](std::int64_t row) {
    const auto at = static_cast<std::size_t>(row - begin);
    return losses_.dtype() == DType::f32 ? static_cast<double>(segment.losses.data<float>()[at])
                                         : segment.losses.data<double>()[at];
  };
  for (auto step = segment.first; step < segment.first + segment.count; ++step) {
    const auto all = batch_rows(step);
    const auto own = own_rows(step);
    double sum = 0;
    for (auto row = own.begin; row < own.end; ++row)
      sum += value(row);
    report.losses.push_back(sum / static_cast<double>(all.end - all.begin));
    report.rows += static_cast<std::uint64_t>(own.end - own.begin);
  }
  if (membership_.members == 1 && !report.losses.empty())
    last_loss_ = report.losses.back();
}

Result<double> TrainingRun::step_on(std::span<const float> features, std::span<const std::int32_t> labels) {
  const auto& network = spec_.trainer.network;
  const auto rows = static_cast<std::int64_t>(labels.size());
  if (rows < 1 || rows > network.max_rows
      || features.size() != labels.size() * static_cast<std::size_t>(network.inputs()))
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("a step takes 1 to {} rows of {} numbers and as many labels, not {} numbers and "
                                       "{} labels",
                                       network.max_rows, network.inputs(), features.size(), labels.size()));
  GPUACTORS_TRY(check_labels(labels, network.outputs()));
  std::vector<double> wide;
  const void* x = features.data();
  if (network.dtype == DType::f64) {
    wide.assign(features.begin(), features.end());
    x = wide.data();
  }
  std::vector<std::byte> losses(labels.size() * gpuactors::size_of(network.dtype));
  // Also where an error ends it, the rows are the caller's again.
  nn::Copies copies{*stream_};
  GPUACTORS_TRY(stream_->upload(some_x_.raw(), x, features.size() * gpuactors::size_of(network.dtype)));
  GPUACTORS_TRY(stream_->upload(some_labels_.raw(), labels.data(), labels.size_bytes()));
  // The first column of the outputs is free here: it takes the losses.
  GPUACTORS_TRY(trainer_.step({rows, some_x_.raw(), some_labels_.raw(), nullptr, 0, logits_.raw()}));
  GPUACTORS_TRY(stream_->download(losses.data(), logits_.raw(), losses.size()));
  GPUACTORS_TRY(copies.finish());
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row)
    sum += network.dtype == DType::f32 ? static_cast<double>(reinterpret_cast<const float*>(losses.data())[row])
                                       : reinterpret_cast<const double*>(losses.data())[row];
  last_loss_ = sum / static_cast<double>(rows);
  return *last_loss_;
}

// -- evaluation ----------------------------------------------------------------------------------

Result<Quality> TrainingRun::evaluate() {
  return spec_.trainer.network.dtype == DType::f32 ? evaluate_as<float>() : evaluate_as<double>();
}

template <class T>
Result<Quality> TrainingRun::evaluate_as() {
  const auto& network = spec_.trainer.network;
  const auto rows = static_cast<std::int64_t>(test_labels_.size());
  const auto tiling = gpuactors::kernels::Tiling::of(static_cast<std::uint64_t>(network.inputs()),
                                                     nn::Grain::of(stream_->context().device().kind).row_tile);
  std::vector<T> outputs(static_cast<std::size_t>(network.max_rows * network.outputs()));
  Quality quality;
  std::int64_t right = 0;
  for (std::int64_t first = 0; first < rows; first += network.max_rows) {
    const auto count = std::min(network.max_rows, rows - first);
    GPUACTORS_TRY(stream_->launch(gpuactors::kernels::gather_rows<T>(),
                                  static_cast<std::uint64_t>(count) * tiling.tiles, tiling,
                                  static_cast<const std::int32_t*>(test_order_.raw()) + first, features_, some_x_));
    GPUACTORS_TRY(trainer_.network().forward(count, some_x_.raw(), logits_.raw()));
    GPUACTORS_TRY(stream_->download(outputs.data(), logits_.raw(),
                                    static_cast<std::size_t>(count * network.outputs()) * sizeof(T)));
    GPUACTORS_TRY(stream_->synchronize());
    for (std::int64_t row = 0; row < count; ++row) {
      const auto [loss, hit] = judge(outputs.data() + row * network.outputs(), network.outputs(),
                                     test_labels_[static_cast<std::size_t>(first + row)]);
      quality.loss += loss / static_cast<double>(rows);
      right += hit ? 1 : 0;
    }
  }
  quality.rows = rows;
  quality.accuracy = rows == 0 ? 0 : static_cast<double>(right) / static_cast<double>(rows);
  return quality;
}

// -- checkpoints ---------------------------------------------------------------------------------

template <class T>
Result<bool> TrainingRun::has_numbers_as() {
  GPUACTORS_LET(values, stream_->to_host<T>(trainer_.network().values()));
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
}

Result<void> TrainingRun::check_numbers(std::optional<double> loss) {
  GPUACTORS_LET(numbers,
                spec_.trainer.network.dtype == DType::f32 ? has_numbers_as<float>() : has_numbers_as<double>());
  if (numbers && std::isfinite(loss.value_or(0)))
    return {};
  return gpuactors::fail(Errc::task_failed,
                         fmt::format("after step {} {} no finite number any more, and is not saved; what was saved "
                                     "before stays as it was: a lower rate may help",
                                     trainer_.steps(), numbers ? "the loss is" : "a parameter of the network is"));
}

Result<void> TrainingRun::save(const std::filesystem::path& path, std::optional<double> loss) {
  if (last_loss_)
    loss = last_loss_;
  GPUACTORS_TRY(check_numbers(loss));
  nn::Metadata notes{{epoch_note, std::to_string(epoch_)},
                     {position_note, std::to_string(position_)},
                     {batch_note, std::to_string(spec_.batch * membership_.members)},
                     {data_note, describe_data(spec_, split_)},
                     {checksum_note, data_checksum_}};
  if (loss)
    notes[loss_note] = fmt::format("{}", *loss);
  return nn::save_training(path, trainer_, spec_.seed, notes);
}

Result<void> TrainingRun::load(const std::filesystem::path& path) {
  // What it says is held against this training before anything is changed.
  GPUACTORS_LET(head, nn::read_safetensors_head(path));
  GPUACTORS_LET(epoch, nn::number_in<std::uint64_t>(head.metadata, epoch_note, path));
  GPUACTORS_LET(position, nn::number_in<std::uint64_t>(head.metadata, position_note, path));
  GPUACTORS_LET(batch, nn::number_in<std::uint64_t>(head.metadata, batch_note, path));
  const auto whole = static_cast<std::uint64_t>(spec_.batch * membership_.members);
  if (position != 0 && (batch != whole || position >= steps_per_epoch()))
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{}: it is of the middle of an epoch with batches of {} rows, not {}",
                                       path.string(), batch, whole));
  const auto data = describe_data(spec_, split_);
  if (head.metadata[data_note] != data)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{}: it cannot be gone on with here: it is of \"{}\", not of \"{}\"",
                                       path.string(), head.metadata[data_note], data));
  // Earlier releases wrote none.
  if (const auto sum = head.metadata.find(checksum_note); sum != head.metadata.end() && sum->second != data_checksum_)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{}: it cannot be gone on with here: it was learnt from other data, or from the "
                                       "same rows in another order (their CRC-32 is {}, not {})",
                                       path.string(), sum->second, data_checksum_));
  std::optional<double> loss;
  if (head.metadata.contains(loss_note)) {
    GPUACTORS_LET(known, nn::number_in<double>(head.metadata, loss_note, path));
    loss = known;
  }
  GPUACTORS_TRY(nn::load_training(path, trainer_));
  last_loss_ = loss;
  epoch_ = epoch;
  position_ = position;
  ordered_ = false;
  return {};
}

Result<void> TrainingRun::take_snapshot() {
  std::vector<const gpuactors::Tensor*> sources{&trainer_.network().values()};
  for (const auto& memory : trainer_.memory())
    sources.push_back(&memory.values);
  if (snapshot_.empty()) {
    // All or none: whoever restores it takes it for whole.
    std::vector<gpuactors::Tensor> made;
    for (const auto* source : sources) {
      GPUACTORS_LET(copy, stream_->tensor(source->dtype(), source->shape()));
      made.push_back(std::move(copy));
    }
    snapshot_ = std::move(made);
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    GPUACTORS_TRY(stream_->copy(snapshot_[i], *sources[i]));
  snapshot_steps_ = trainer_.steps();
  snapshot_epoch_ = epoch_;
  return {};
}

Result<void> TrainingRun::restore_snapshot() {
  if (!snapshot_.empty()) {
    GPUACTORS_TRY(stream_->copy(trainer_.network().values(), snapshot_[0]));
    for (std::size_t i = 0; i < trainer_.memory().size(); ++i)
      GPUACTORS_TRY(stream_->copy(trainer_.memory()[i].values, snapshot_[i + 1]));
    trainer_.set_steps(snapshot_steps_);
    epoch_ = snapshot_epoch_;
  }
  position_ = 0;
  ordered_ = false;
  last_loss_.reset();
  return {};
}

Result<void> TrainingRun::take_over(gpuactors::Collective& peers, std::size_t root) {
  std::vector<std::int64_t> counts{static_cast<std::int64_t>(epoch_), static_cast<std::int64_t>(trainer_.steps())};
  GPUACTORS_TRY(peers.broadcast(counts, root));
  GPUACTORS_TRY(peers.broadcast(*stream_, trainer_.network().values(), root));
  for (auto& memory : trainer_.memory())
    GPUACTORS_TRY(peers.broadcast(*stream_, memory.values, root));
  epoch_ = static_cast<std::uint64_t>(counts[0]);
  trainer_.set_steps(static_cast<std::uint64_t>(counts[1]));
  position_ = 0;
  ordered_ = false;
  last_loss_.reset();
  return {};
}

} // namespace train
