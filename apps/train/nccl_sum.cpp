#include "nccl_sum.hpp"

#include <fmt/format.h>

#include <cstring>

namespace train {

using namespace std::chrono_literals;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// How often NCCL is asked for errors, and for the end of what it does on the host.
constexpr auto look = 20ms;

/// Steps that may be on the stream at once, so that queueing never blocks behind a member that died; and after how many
/// the stream tells how far it is.
constexpr std::uint64_t most_under_way = 32;
constexpr std::uint64_t told_every = 8;

} // namespace

NcclSum::NcclSum(const Nccl& nccl, gpuactors::Stream& stream, const gpuactors::Tensor& slopes,
                 std::function<void()> wake)
  : nccl_(nccl), stream_(stream), slopes_(slopes) {
  landing_->wake = std::move(wake);
}

Result<std::unique_ptr<NcclSum>> NcclSum::join(gpuactors::Stream& stream, const gpuactors::Tensor& slopes,
                                               const Place& place, std::function<void()> wake) {
  GPUACTORS_LET(nccl, Nccl::load());
  Nccl::Id id;
  if (place.id.size() != id.bytes.size() || place.rank < 0 || place.rank >= place.members)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("rank {} of {} and an id of {} B make no group of NCCL's", place.rank,
                                       place.members, place.id.size()));
  std::memcpy(id.bytes.data(), place.id.data(), id.bytes.size());
  std::unique_ptr<NcclSum> sum{new NcclSum{*nccl, stream, slopes, std::move(wake)}};
  const auto native = stream.native(); // its device is where the communicator is made
  GPUACTORS_TRY(native);
  Nccl::Config config;
  const auto code = nccl->comm_init_rank_config(&sum->comm_, place.members, id, place.rank, &config);
  if (code != Nccl::success && code != Nccl::in_progress)
    return gpuactors::fail(nccl->error("ncclCommInitRankConfig", code));
  sum->watcher_ = std::jthread{[self = sum.get()](const std::stop_token& stop) { self->watch(stop); }};
  return sum;
}

NcclSum::~NcclSum() {
  watcher_ = {}; // before the communicator
  abandon();
}

void NcclSum::abandon() noexcept {
  const std::lock_guard lock{mutex_};
  abort();
  if (!failed_)
    failed_.emplace(Errc::cancelled, "the sum was given up");
}

void NcclSum::abort() noexcept {
  // An orderly end would wait for the others.
  if (comm_ != nullptr)
    (void)nccl_.comm_abort(comm_);
  comm_ = nullptr;
}

void NcclSum::watch(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    (void)wake_.wait_for(lock, stop, look, [] { return false; });
    const auto done = stop.stop_requested() ? Result<bool>{false} : asked_for_progress();
    if (done && !(*done && awaited_))
      continue;
    awaited_ = false;
    landing_->wake();
    if (!done)
      return;
  }
}

Result<bool> NcclSum::asked_for_progress() {
  if (failed_)
    return gpuactors::fail(*failed_);
  int state = Nccl::success;
  if (const auto code = nccl_.comm_get_async_error(comm_, &state); code != Nccl::success)
    state = code;
  if (state == Nccl::success || state == Nccl::in_progress)
    return state == Nccl::success;
  failed_ = nccl_.error("ncclCommGetAsyncError", state);
  abort();
  return gpuactors::fail(*failed_);
}

Result<void> NcclSum::ask_to_land() {
  if (told_ == begun_)
    return {};
  told_ = begun_;
  return stream_.notify([landing = landing_, step = begun_](const Result<void>&) {
    landing->landed = step; // errors of the stream come when it is waited for
    landing->wake();
  });
}

Result<void> NcclSum::begin(std::uint64_t) {
  GPUACTORS_LET(native, stream_.native());
  const std::lock_guard lock{mutex_};
  if (failed_)
    return gpuactors::fail(*failed_);
  const auto type = slopes_.dtype() == gpuactors::DType::f64 ? Nccl::float64 : Nccl::float32;
  const auto code = nccl_.all_reduce(slopes_.raw(), slopes_.raw(), static_cast<std::size_t>(slopes_.size()), type,
                                     Nccl::sum, comm_, native.handle());
  if (code != Nccl::success && code != Nccl::in_progress)
    return gpuactors::fail(nccl_.error("ncclAllReduce", code));
  ++begun_;
  return {};
}

Result<bool> NcclSum::ready() {
  const std::lock_guard lock{mutex_};
  // Only then is the sum on the stream, and may other work follow it.
  GPUACTORS_LET(queued, asked_for_progress());
  awaited_ = !queued;
  if (!queued)
    return false;
  if (begun_ - told_ >= told_every)
    GPUACTORS_TRY(ask_to_land());
  return begun_ - landing_->landed < most_under_way;
}

Result<bool> NcclSum::settled() {
  const std::lock_guard lock{mutex_};
  GPUACTORS_LET(queued, asked_for_progress());
  awaited_ = !queued;
  if (!queued)
    return false;
  GPUACTORS_TRY(ask_to_land());
  return landing_->landed == begun_;
}

Result<void> NcclSum::take(const Piece& piece) {
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("a piece of step {} came to a member that sums by NCCL", piece.step()));
}

} // namespace train
