// Streams, permits and parallel loops of one host backend.
#include <gpuactors/device/detail/call_back.hpp>
#include <gpuactors/device/detail/serving_device.hpp>
#include <gpuactors/device/host/core.hpp>
#include <gpuactors/device/host/pool.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <iterator>
#include <limits>
#include <system_error>
#include <thread>

namespace gpuactors::host {

namespace {

/// How many ops are run without the mutex in between, so that the thread that queues and the one that runs rarely meet
/// at the mutex.
constexpr std::size_t ops_at_once = 32;

/// How many ops may be left to the caller, who will come and wait, and for how long.
constexpr std::size_t ops_left = 64;
constexpr std::chrono::milliseconds left_for{1};

/// How long a waiter polls before it sleeps: about what sleeping and waking cost.
constexpr std::chrono::microseconds look_before_sleep{25};

/// The most `Plain`s to keep: enough that a stream that is filled while it runs rarely allocates, as long as the
/// device's `Allowance` allows more.
constexpr std::size_t most_kept_plains = 4096;
constexpr std::size_t plains_at_once = 256;

/// Prefetches the part of an op that most work consists of.
void prefetch(const Plain& plain) {
  constexpr std::size_t line = 64;
  const auto* bytes = reinterpret_cast<const std::byte*>(&plain);
  for (std::size_t at = 0; at < 4 * line; at += line)
    __builtin_prefetch(bytes + at);
}

Result<void> run_guarded(const Op& op) {
  try {
    return op.plain != nullptr ? op.plain->call(op.plain->bytes.data()) : op.task->run();
  } catch (const std::exception& error) {
    return fail(Errc::launch_failed, std::string{"a kernel threw: "} + error.what());
  } catch (...) {
    return fail(Errc::launch_failed, "a kernel threw something that is no std::exception");
  }
}

} // namespace

// -- records -------------------------------------------------------------------------------------

bool Record::done() const {
  std::lock_guard guard{mutex_};
  return done_;
}

bool Record::await(std::shared_ptr<Core> core, HostStream* stream) {
  std::lock_guard guard{mutex_};
  if (!done_)
    waiters_.emplace_back(std::move(core), stream);
  return done_;
}

void Record::complete() {
  std::vector<std::pair<std::shared_ptr<Core>, HostStream*>> waiters;
  {
    std::lock_guard guard{mutex_};
    done_ = true;
    waiters.swap(waiters_);
  }
  for (auto& [core, stream] : waiters)
    core->resume(stream);
}

// -- streams -------------------------------------------------------------------------------------

Core::Core(Pool& pool, int permits) : pool_(pool), allowance_(pool.allowance()), permits_(permits) {
  // nop
}

Core::~Core() {
  if (kept_plains_ > plains_at_once)
    allowance_->give_back(kept_plains_ - plains_at_once);
}

HostStream* Core::make_stream() {
  Lock lock{mutex_};
  return streams_.emplace_back(std::make_unique<HostStream>()).get();
}

void Core::destroy_stream(HostStream* stream) {
  Lock lock{mutex_};
  // The thread that ran the last op may still look for another, and find one: a free that was queued just now.
  while (stream->completed != stream->submitted || stream->state == StreamState::running) {
    await(stream, stream->submitted, lock);
    if (stream->state != StreamState::running)
      continue;
    ++waiting_;
    changed_.wait(lock);
    --waiting_;
  }
  std::erase_if(streams_, [stream](const auto& owned) { return owned.get() == stream; });
}

void Core::submit(HostStream* stream, Task task) {
  Op op{nullptr, std::make_unique<Task>(std::move(task))};
  Lock lock{mutex_};
  push(stream, std::move(op));
}

bool Core::begin_capture(HostStream* stream) {
  const Lock lock{mutex_};
  if (stream->captured)
    return false;
  stream->captured.emplace();
  return true;
}

std::vector<std::unique_ptr<Plain>> Core::end_capture(HostStream* stream) {
  const Lock lock{mutex_};
  auto ops = std::move(stream->captured).value_or(std::vector<std::unique_ptr<Plain>>{});
  stream->captured.reset();
  return ops;
}

std::unique_ptr<Plain> Core::take_plain() {
  if (plains_.empty())
    return std::make_unique_for_overwrite<Plain>();
  auto plain = std::move(plains_.back());
  plains_.pop_back();
  return plain;
}

bool Core::may_keep() {
  if (plains_.size() == kept_plains_ && kept_plains_ < most_kept_plains
      && (kept_plains_ == 0 || allowance_->take(plains_at_once)))
    kept_plains_ += plains_at_once;
  return plains_.size() < kept_plains_;
}

void Core::push(HostStream* stream, Op op) {
  const bool now = op.task != nullptr && (op.task->prompt || !op.task->run);
  stream->ops.push_back(std::move(op));
  ++stream->submitted;
  if (stream->state == StreamState::idle)
    make_ready(stream);
  if (stream->state == StreamState::ready)
    request(stream, now || stream->ops.size() >= ops_left);
}

void Core::make_ready(HostStream* stream) {
  ready_.push_back(stream);
  stream->state = StreamState::ready;
  stream->ready_since = Clock::now();
  stream->requested = false;
  others_wait_.store(true, std::memory_order_relaxed);
}

void Core::request(HostStream* stream, bool now) {
  // With all permits in use, the threads at work go on with what is ready.
  if (stream->requested || used_ == permits_)
    return;
  if (!now && !looked_after_)
    looked_after_ = pool_.request_late(shared_from_this());
  if (!now && looked_after_)
    return;
  // If it throws, the next work asks again.
  pool_.request(shared_from_this());
  stream->requested = true;
}

bool Core::try_request() {
  try {
    pool_.request(shared_from_this());
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

Lateness Core::lateness() {
  Lock lock{mutex_};
  if (ready_.empty() || used_ == permits_) {
    looked_after_ = false;
    return Lateness::none;
  }
  const auto late = Clock::now() - left_for;
  const bool any =
      std::any_of(ready_.begin(), ready_.end(), [late](const auto* stream) { return stream->ready_since <= late; });
  return any ? Lateness::late : Lateness::early;
}

Result<void> Core::synchronize(HostStream* stream) {
  Lock lock{mutex_};
  await(stream, stream->submitted, lock);
  if (!stream->error)
    return {};
  auto error = std::move(*stream->error);
  stream->error.reset();
  return fail(std::move(error));
}

void Core::drain() {
  Lock lock{mutex_};
  std::vector<std::pair<HostStream*, std::uint64_t>> targets;
  for (const auto& stream : streams_)
    targets.emplace_back(stream.get(), stream->submitted);
  for (auto [stream, target] : targets)
    await(stream, target, lock);
}

void Core::after_all(std::function<void()> action, std::vector<std::shared_ptr<Record>> others) {
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> action;
  };
  {
    Lock lock{mutex_};
    if (!others.empty() && service_ == nullptr)
      service_ = streams_.emplace_back(std::make_unique<HostStream>()).get();
    const bool waits = !others.empty();
    for (auto& record : others) {
      Task task;
      task.wait_for = std::move(record);
      push(service_, {nullptr, std::make_unique<Task>(std::move(task))});
    }
    std::vector<HostStream*> busy;
    for (const auto& stream : streams_) {
      // The work of `service_` matters only to an action that waits for records itself.
      if (stream->completed != stream->submitted && (waits || stream.get() != service_))
        busy.push_back(stream.get());
    }
    if (!busy.empty()) {
      auto countdown = std::make_shared<Countdown>();
      countdown->left = busy.size();
      countdown->action = std::move(action);
      for (auto* stream : busy) {
        Task task;
        task.run = [countdown]() -> Result<void> {
          if (--countdown->left == 0)
            countdown->action();
          return {};
        };
        push(stream, {nullptr, std::make_unique<Task>(std::move(task))});
      }
      return;
    }
  }
  action();
}

void Core::resume(HostStream* stream) {
  Lock lock{mutex_};
  ++stream->completed;
  if (stream->ops.empty()) {
    stream->state = StreamState::idle;
  } else {
    make_ready(stream);
    stream->requested = used_ < permits_ && try_request();
  }
  signal();
}

void Core::await(HostStream* stream, std::uint64_t target, Lock& lock) {
  for (bool looked = false; stream->completed < target;) {
    if (stream->state == StreamState::ready && used_ < permits_) {
      std::erase(ready_, stream);
      run(stream, target, false, lock);
      continue;
    }
    if (!looked) {
      // Polls first: short work of another thread is over before this one could sleep and be woken again.
      looked = true;
      lock.unlock();
      const auto until = Clock::now() + look_before_sleep;
      while (stream->completed < target && Clock::now() < until)
        std::this_thread::yield();
      lock.lock();
      continue;
    }
    stream->awaited = std::min(stream->awaited, target);
    ++waiting_;
    changed_.wait(lock);
    --waiting_;
  }
}

// -- running -------------------------------------------------------------------------------------

void Core::work() {
  Lock lock{mutex_};
  looked_after_ = false;
  while (used_ < permits_) {
    if (!ready_.empty()) {
      auto* stream = ready_.front();
      ready_.pop_front();
      // One request may stand for several streams: requests a thread for the others.
      if (!ready_.empty() && used_ + 1 < permits_)
        pool_.request(shared_from_this());
      run(stream, std::numeric_limits<std::uint64_t>::max(), true, lock);
    } else if (auto* loop = open_loop()) {
      help(*loop, lock);
    } else {
      return;
    }
  }
}

void Core::run(HostStream* stream, std::uint64_t until, bool share, Lock& lock) {
  ++used_;
  stream->state = StreamState::running;
  bool going = true;
  for (bool waited = false; !waited;) {
    while (going && !stream->ops.empty() && stream->completed < until) {
      going = step(stream, until, lock);
      // Streams of one backend take turns if there are more of them than permits.
      if (share && !ready_.empty())
        break;
    }
    if (!share || !going || !stream->ops.empty() || !ready_.empty())
      break;
    // The thread that queues the next op may be waiting for this very processor core: yields to it, instead of being
    // woken for each op.
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    waited = stream->ops.empty();
  }
  if (going) {
    stream->state = StreamState::idle;
    if (!stream->ops.empty())
      make_ready(stream);
  }
  --used_;
  // A thread of the pool goes on in `work`; a caller that leaves has to request a thread.
  if (!share && !ready_.empty())
    try_request();
  signal();
}

bool Core::step(HostStream* stream, std::uint64_t until, Lock& lock) {
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(ops_at_once, until - stream->completed));
  std::size_t plain = 0;
  while (plain < std::min(most, stream->ops.size()) && stream->ops[plain].is_call())
    ++plain;
  if (plain > 0)
    return run_some(stream, plain, lock);
  const auto task = std::move(stream->ops.front().task);
  stream->ops.pop_front();
  if (task->wait_for != nullptr) {
    if (!task->wait_for->await(shared_from_this(), stream)) {
      stream->state = StreamState::parked;
      return false;
    }
  } else {
    Result<void> result;
    if (stream->error)
      result = fail(std::move(*stream->error));
    stream->error.reset();
    lock.unlock();
    {
      const detail::ServingDevice serving;
      detail::call_back(task->callback, std::move(result));
      task->callback = nullptr;
    }
    lock.lock();
  }
  complete(stream, 1);
  return true;
}

bool Core::run_some(HostStream* stream, std::size_t count, Lock& lock) {
  // The ops stay where they are, even while others are queued behind them.
  std::array<Op*, ops_at_once> ops; // NOLINT(*-member-init): as many as are used
  for (std::size_t i = 0; i < count; ++i)
    ops[i] = &stream->ops[i];
  others_wait_.store(!ready_.empty(), std::memory_order_relaxed);
  lock.unlock();
  const detail::ServingDevice serving;
  std::optional<Error> error;
  std::size_t done = 0;
  do {
    // Another processor usually wrote the next op: prefetches it while this one runs.
    if (done + 1 < count && ops[done + 1]->plain != nullptr)
      prefetch(*ops[done + 1]->plain);
    auto result = run_guarded(*ops[done]);
    // Destroys what the work owns before anybody learns that the work is done.
    ops[done]->task = nullptr;
    ++done;
    if (!result && !error)
      error = result.error();
    // Stops early if another stream waits for its turn.
  } while (done < count && !others_wait_.load(std::memory_order_relaxed));
  lock.lock();
  for (std::size_t i = 0; i < done && may_keep(); ++i)
    if (ops[i]->plain != nullptr)
      plains_.push_back(std::move(ops[i]->plain));
  stream->ops.erase(stream->ops.begin(), stream->ops.begin() + static_cast<std::ptrdiff_t>(done));
  if (error && !stream->error)
    stream->error = std::move(error);
  complete(stream, done);
  return true;
}

void Core::complete(HostStream* stream, std::uint64_t count) {
  stream->completed += count;
  if (stream->completed < stream->awaited)
    return;
  stream->awaited = HostStream::nobody;
  signal();
}

void Core::signal() {
  if (waiting_ > 0)
    changed_.notify_all();
}

// -- loops ---------------------------------------------------------------------------------------

void Core::parallel(std::size_t chunks, const std::function<void(std::size_t)>& body) {
  if (permits_ == 1 || chunks < 2) {
    for (std::size_t i = 0; i < chunks; ++i)
      body(i);
    return;
  }
  Loop loop{&body, chunks};
  {
    Lock lock{mutex_};
    loops_.push_back(&loop);
    const auto wanted = std::min(static_cast<std::size_t>(permits_ - used_), chunks - 1);
    // Without any thread, the caller does all pieces.
    for (std::size_t i = 0; i < wanted && try_request(); ++i) {
      // nop
    }
  }
  for (auto i = loop.next++; i < chunks; i = loop.next++)
    body(i);
  Lock lock{mutex_};
  std::erase(loops_, &loop);
  while (loop.helpers > 0) {
    ++waiting_;
    changed_.wait(lock);
    --waiting_;
  }
}

Core::Loop* Core::open_loop() {
  for (auto* loop : loops_) {
    if (loop->next.load() < loop->chunks)
      return loop;
  }
  return nullptr;
}

void Core::help(Loop& loop, Lock& lock) {
  ++used_;
  ++loop.helpers;
  lock.unlock();
  for (auto i = loop.next++; i < loop.chunks; i = loop.next++)
    (*loop.body)(i);
  lock.lock();
  --loop.helpers;
  --used_;
  signal();
}

} // namespace gpuactors::host
