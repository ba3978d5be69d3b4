#include "nccl_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace train {

using namespace std::chrono_literals;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// How often NCCL is asked for errors; and for the end of what it does on the host, at first.
constexpr gpuactors::Duration look = 20ms;
constexpr gpuactors::Duration first_look = 50us;

/// Steps that may be on the stream at once, and operations: a driver takes about twice as many before it blocks.
constexpr std::uint64_t most_steps = 32;
constexpr std::uint64_t most_operations = 512;

} // namespace

NcclSum::NcclSum(const Nccl& nccl, gpuactors::Stream& stream, const gpuactors::Tensor& gradients, const Place& place,
                 std::function<void()> wake)
  : nccl_(nccl), stream_(stream), gradients_(gradients),
    most_under_way_(
        std::clamp(most_operations / std::max<std::uint64_t>(place.operations, 1), std::uint64_t{1}, most_steps)),
    patience_(place.patience) {
  landing_->wake = std::move(wake);
}

Result<std::unique_ptr<NcclSum>> NcclSum::join(gpuactors::Stream& stream, const gpuactors::Tensor& gradients,
                                               const Place& place, std::function<void()> wake) {
  GPUACTORS_LET(nccl, Nccl::load());
  Nccl::Id id;
  if (place.id.size() != id.bytes.size() || place.rank < 0 || place.rank >= place.members)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("rank {} of {} and an id of {} B make no group of NCCL's", place.rank,
                                       place.members, place.id.size()));
  std::memcpy(id.bytes.data(), place.id.data(), id.bytes.size());
  std::unique_ptr<NcclSum> sum{new NcclSum{*nccl, stream, gradients, place, std::move(wake)}};
  const auto native = stream.native(); // its device is where the communicator is made
  if (!native)
    return gpuactors::fail(native.error());
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
  auto* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr)
    return;
  // An orderly end would wait for the others. This one waits for what is on the stream before the last sum, which may
  // be many steps: whoever gives up says so meanwhile.
  try {
    aborting_ = std::jthread{[&nccl = nccl_, comm] { (void)nccl.comm_abort(comm); }};
  } catch (const std::exception&) { // no more threads, or memory
    (void)nccl_.comm_abort(comm);
  }
}

void NcclSum::watch(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  for (auto pause = look; !stop.stop_requested();) {
    // Sums that NCCL begins on a thread of its own take it a moment: who waits for that is told soon.
    const bool was_awaited = awaited_;
    if (wake_.wait_for(lock, stop, pause, [&] { return awaited_ && !was_awaited; }))
      pause = first_look;
    const auto done = stop.stop_requested() ? Result<bool>{false} : asked_for_progress();
    pause = awaited_ ? std::min(2 * pause, look) : look;
    if (done && !(*done && awaited_))
      continue;
    awaited_ = false;
    landing_->wake();
    if (!done)
      return;
  }
}

bool NcclSum::await_if(bool busy) {
  if (busy && !awaited_)
    wake_.notify_one();
  awaited_ = busy;
  return busy;
}

Result<bool> NcclSum::asked_for_progress() {
  if (failed_)
    return gpuactors::fail(*failed_);
  int state = Nccl::success;
  if (const auto code = nccl_.comm_get_async_error(comm_, &state); code != Nccl::success)
    state = code;
  const auto now = gpuactors::Clock::now();
  if (state == Nccl::success)
    busy_since_ = now;
  if (state == Nccl::success || (state == Nccl::in_progress && now - busy_since_ < patience_))
    return state == Nccl::success;
  if (state == Nccl::in_progress)
    failed_.emplace(Errc::unavailable, fmt::format("NCCL was at work for {} s without an end",
                                                   std::chrono::duration<double>(patience_).count()));
  else
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

Result<void> NcclSum::begin() {
  GPUACTORS_LET(native, stream_.native());
  const std::lock_guard lock{mutex_};
  if (failed_)
    return gpuactors::fail(*failed_);
  const auto type = gradients_.dtype() == gpuactors::DType::f64 ? Nccl::float64 : Nccl::float32;
  const auto code = nccl_.all_reduce(gradients_.raw(), gradients_.raw(), static_cast<std::size_t>(gradients_.size()),
                                     type, Nccl::sum, comm_, native.handle());
  if (code != Nccl::success && code != Nccl::in_progress)
    return gpuactors::fail(nccl_.error("ncclAllReduce", code));
  ++begun_;
  busy_since_ = gpuactors::Clock::now();
  return {};
}

Result<bool> NcclSum::ready() {
  const std::lock_guard lock{mutex_};
  // Only then is the sum on the stream, and may other work follow it.
  GPUACTORS_LET(queued, asked_for_progress());
  if (await_if(!queued))
    return false;
  // Often enough that the room for steps is never used up by those that nobody asked about.
  if (begun_ - told_ >= (most_under_way_ + 3) / 4)
    GPUACTORS_TRY(ask_to_land());
  return begun_ - landing_->landed < most_under_way_;
}

Result<bool> NcclSum::settled() {
  const std::lock_guard lock{mutex_};
  GPUACTORS_LET(queued, asked_for_progress());
  if (await_if(!queued))
    return false;
  GPUACTORS_TRY(ask_to_land());
  return landing_->landed == begun_;
}

} // namespace train
