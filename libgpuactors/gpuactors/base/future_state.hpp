// What both ends of a future share: readiness and waiting, the value, and futures that are made from others.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/executor.hpp>
#include <gpuactors/base/report_exception.hpp>
#include <gpuactors/base/result.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

/// How work is to be cancelled.
enum class Cancel : std::uint8_t {
  /// Ask the work to stop (`stop_requested`).
  ask,
  /// End the process of the work, if it has one of its own.
  force,
};

template <class T>
class Future;

namespace detail {

/// Whether a wait until `deadline` is for the answer: shorter ones are those of callers who come back.
[[nodiscard]] bool is_more_than_a_look(TimePoint deadline);

/// The state shared by both ends, except the value: readiness, waiting, callbacks.
class FutureCore {
public:
  virtual ~FutureCore();
  FutureCore() = default;
  FutureCore(const FutureCore&) = delete;
  FutureCore& operator=(const FutureCore&) = delete;

  [[nodiscard]] bool ready() const noexcept {
    return ready_.load(std::memory_order_acquire);
  }

  /// Blocks until ready or `deadline`; returns whether it is ready.
  bool wait_until(TimePoint deadline);

  /// Runs `observer` once when ready, on the completing thread (at once if already ready): it must only post.
  /// @returns a number for `forget`; 0 when it ran at once.
  std::uint64_t on_ready(std::function<void()> observer);

  /// Removes an observer, unless it is running or has run. Otherwise a program that waits for one of many futures again
  /// and again would leave an observer on each of them every time.
  void forget(std::uint64_t observer);

  /// Asks the producer to stop. Does nothing by default.
  virtual void cancel(Cancel how);

  /// Like `cancel`, but for a caller that no longer waits: a future without a producer that would answer becomes
  /// `cancelled`.
  virtual void give_up(Cancel how);

  /// Called by a thread that is about to sleep for more than a look until this is ready. If only that thread can do the
  /// work, which it cannot while it waits, the work is withdrawn and ends with an error that says so. Does nothing by
  /// default.
  virtual void refuse_own_wait();

  /// The executor for the function of `Future::then`; null means the completing thread. Not changed any more once the
  /// result is there, and not read before.
  std::shared_ptr<Executor> executor;

  /// Whether a thread of this process is expected to produce the answer; if so, a waiter polls longer before it sleeps.
  bool near = false;

protected:
  /// Claims the right to complete; false if it was claimed before.
  bool claim() noexcept {
    return !claimed_.exchange(true, std::memory_order_acq_rel);
  }

  /// Publishes the value written since `claim`.
  void publish();

private:
  std::atomic<bool> claimed_{false};
  std::atomic<bool> ready_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  int waiters_ = 0;
  std::uint64_t last_observer_ = 0;
  std::vector<std::pair<std::uint64_t, std::function<void()>>> observers_;
};

template <class T>
class FutureState : public FutureCore {
public:
  /// Completes the future; returns false if it was already complete. Any thread.
  bool complete(Result<T> result) {
    if (!claim())
      return false;
    result_.emplace(std::move(result));
    publish();
    return true;
  }

  /// Moves the result out; only after `ready()`, only once.
  virtual Result<T> take() {
    return std::move(*result_);
  }

private:
  std::optional<Result<T>> result_;
};

/// The state of a promise, which notices when nobody wants its result any more.
template <class T>
class PromiseState : public FutureState<T> {
public:
  void cancel(Cancel) override {
    std::function<void()> function;
    {
      const std::lock_guard lock{mutex_};
      if (this->ready() || std::exchange(cancelled_, true))
        return;
      function = std::exchange(function_, nullptr);
    }
    call(function);
  }

  void give_up(Cancel how) override {
    cancel(how);
    this->complete(fail(Errc::cancelled, "the future was cancelled before the promise was kept"));
  }

  bool keep(Result<T> result) {
    const bool kept = this->complete(std::move(result));
    std::function<void()> function; // destroyed after the lock is released: it may own the promise
    const std::lock_guard lock{mutex_};
    function.swap(function_);
    return kept;
  }

  [[nodiscard]] bool cancelled() const {
    const std::lock_guard lock{mutex_};
    return cancelled_;
  }

  void on_cancel(std::function<void()> function) {
    {
      const std::lock_guard lock{mutex_};
      if (!cancelled_) {
        // Nobody calls it once the result is there, and it may own the promise. What is dropped is destroyed after the
        // lock is released.
        if (!this->ready())
          function_.swap(function);
        return;
      }
    }
    call(function);
  }

private:
  /// Catches everything: the function is the program's, and the thread may be one that the whole process needs.
  static void call(const std::function<void()>& function) noexcept {
    try {
      if (function)
        function();
    } catch (...) {
      report_exception("Promise::on_cancel");
    }
  }

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  bool cancelled_ = false;
  std::function<void()> function_;
};

/// A pointer that its owner's thread uses and takes while other threads may copy it. No other thread may use a slot
/// while it is moved or assigned: vectors move their elements often, and would lock twice for each.
template <class T>
class SharedSlot {
public:
  SharedSlot() = default;

  explicit SharedSlot(std::shared_ptr<T> pointer) : pointer_(std::move(pointer)) {
    // nop
  }

  SharedSlot(SharedSlot&& other) noexcept : pointer_(std::move(other.pointer_)) {
    // nop
  }

  SharedSlot& operator=(SharedSlot&& other) noexcept {
    pointer_ = std::move(other.pointer_);
    return *this;
  }

  ~SharedSlot() = default;

  /// Returns the pointer. Owner's thread.
  [[nodiscard]] const std::shared_ptr<T>& get() const noexcept {
    return pointer_;
  }

  /// Moves the pointer out. Owner's thread.
  [[nodiscard]] std::shared_ptr<T> take() noexcept {
    const Hold hold{*this};
    return std::move(pointer_);
  }

  /// Returns a copy of the pointer. Any thread.
  [[nodiscard]] std::shared_ptr<T> copy() const noexcept {
    const Hold hold{*this};
    return pointer_;
  }

private:
  /// Spins: the lock is held no longer than a copy takes, and contention is rare.
  class Hold {
  public:
    explicit Hold(const SharedSlot& slot) noexcept : held_(slot.held_) {
      while (held_.exchange(true, std::memory_order_acquire))
        std::this_thread::yield();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      held_.store(false, std::memory_order_release);
    }

  private:
    std::atomic<bool>& held_;
  };

  std::shared_ptr<T> pointer_;
  mutable std::atomic<bool> held_{false};
};

/// The error of a future whose result was taken.
[[nodiscard]] Failure taken_already();

/// The result type of `function(T)`, without the `Result` around it.
template <class F, class T>
struct MadeByCall {
  using Type = std::remove_cvref_t<std::invoke_result_t<F&, T>>;
};
template <class F>
struct MadeByCall<F, void> {
  using Type = std::remove_cvref_t<std::invoke_result_t<F&>>;
};
template <class T>
struct WithoutResult {
  using Type = T;
};
template <class T>
struct WithoutResult<Result<T>> {
  using Type = T;
};
template <class F, class T>
using MadeBy = typename WithoutResult<typename MadeByCall<F, T>::Type>::Type;

/// Calls `function` with the value of `result`, or passes the error on.
template <class Made, class F, class T>
Result<Made> made_by(F& function, Result<T> result) {
  if (!result)
    return fail(result.error());
  const auto call = [&]() -> decltype(auto) {
    if constexpr (std::is_void_v<T>)
      return function();
    else
      return function(std::move(*result));
  };
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return {};
    } else {
      return call();
    }
  } catch (const FailedResult& failed) {
    return fail(failed.error());
  } catch (const std::exception& exception) {
    return fail(Errc::task_failed, std::string{"the function of a future threw an exception: "} + exception.what());
  } catch (...) {
    return fail(Errc::task_failed, "the function of a future threw an exception of no standard type");
  }
}

/// Calls a function given to `then`. Reports its exceptions on standard error, because nobody else can catch them.
template <class F, class T>
void call_back(F& function, Result<T> result) noexcept {
  try {
    function(std::move(result));
  } catch (...) {
    report_exception("Future::then");
  }
}

/// The state of a future that is made from another one: it becomes ready with its source, and its value is made when it
/// is taken. So making the value needs no thread of its own, and a waiting thread cannot be in the way of it.
template <class Made, class T, class F>
class TransformState : public FutureState<Made> {
public:
  /// @tparam Self this class, or one that adds to it.
  template <class Self = TransformState>
  static std::shared_ptr<Self> make(std::shared_ptr<FutureState<T>> source, F function) {
    auto state = std::make_shared<Self>(std::move(source), std::move(function));
    // Weak: a future that nobody wants is not kept.
    state->source_->on_ready([weak = std::weak_ptr<Self>{state}] {
      const auto self = weak.lock();
      if (self == nullptr || !self->claim())
        return;
      self->executor = self->source_->executor;
      self->publish();
    });
    return state;
  }

  TransformState(std::shared_ptr<FutureState<T>> source, F function)
    : source_(std::move(source)), function_(std::move(function)) {
    this->near = source_->near;
  }

  Result<Made> take() override {
    // What the function owns is destroyed here, not where this state is destroyed.
    auto function = std::move(function_);
    return made_by<Made>(function, source_->take());
  }

  void cancel(Cancel how) override {
    source_->cancel(how);
  }

  void give_up(Cancel how) override {
    source_->give_up(how);
  }

  void refuse_own_wait() override {
    source_->refuse_own_wait();
  }

protected:
  [[nodiscard]] const std::shared_ptr<FutureState<T>>& source() const noexcept {
    return source_;
  }

private:
  std::shared_ptr<FutureState<T>> source_;
  F function_;
};

/// The state of a future that follows two pieces of work, of which the first one's value starts the second.
template <class Made>
class ChainState : public FutureState<Made>, public std::enable_shared_from_this<ChainState<Made>> {
public:
  explicit ChainState(std::shared_ptr<FutureCore> first) : under_way_(std::move(first)) {
    // nop
  }

  /// Completes the future with an error, because there is no second piece.
  void fail_with(Result<Made> error) {
    this->executor = under_way_->executor;
    this->complete(std::move(error));
  }

  /// Follows the second piece, which has been started. Its result stays there until it is taken.
  void follow(std::shared_ptr<FutureState<Made>> second) {
    second_ = std::move(second);
    const auto first = under_way_->executor;
    std::optional<Withdrawal> withdrawal;
    {
      const std::lock_guard lock{mutex_};
      under_way_ = second_;
      withdrawal = withdrawal_;
    }
    // Weak: a future that nobody wants is not kept.
    second_->on_ready([weak = this->weak_from_this(), first] {
      const auto self = weak.lock();
      if (self == nullptr || !self->claim())
        return;
      // One of the two may have been ready from the beginning, without a cluster.
      self->executor = first != nullptr ? first : self->second_->executor;
      self->publish();
    });
    if (withdrawal)
      withdrawal->apply(*second_);
  }

  Result<Made> take() override {
    return second_ != nullptr ? second_->take() : FutureState<Made>::take();
  }

  void cancel(Cancel how) override {
    withdraw({how, &FutureCore::cancel});
  }

  void give_up(Cancel how) override {
    withdraw({how, &FutureCore::give_up});
  }

  void refuse_own_wait() override {
    under_way()->refuse_own_wait();
  }

private:
  struct Withdrawal {
    Cancel how;
    void (FutureCore::*function)(Cancel);

    void apply(FutureCore& work) const {
      (work.*function)(how);
    }
  };

  void withdraw(Withdrawal withdrawal) {
    std::shared_ptr<FutureCore> work;
    {
      const std::lock_guard lock{mutex_};
      if (!withdrawal_ || withdrawal_->how != Cancel::force)
        withdrawal_ = withdrawal;
      work = under_way_;
    }
    withdrawal.apply(*work);
  }

  [[nodiscard]] std::shared_ptr<FutureCore> under_way() {
    const std::lock_guard lock{mutex_};
    return under_way_;
  }

  // Written before the state is published, read afterwards.
  std::shared_ptr<FutureState<Made>> second_;
  std::mutex mutex_;
  // Guarded by the mutex; changed by `follow` alone. Between the two pieces, the first one: it may be over for its
  // future, and still be running.
  std::shared_ptr<FutureCore> under_way_;
  std::optional<Withdrawal> withdrawal_;
};

/// The values of many futures of one type: those of `void` have none.
template <class T>
struct AllOf {
  using Type = std::vector<T>;
};
template <>
struct AllOf<void> {
  using Type = void;
};

/// The state of a future that is ready when all of `parts` are. The results stay in `parts` until this future's result
/// is taken.
template <class T>
class AllState : public FutureState<typename AllOf<T>::Type> {
public:
  using Values = typename AllOf<T>::Type;

  static std::shared_ptr<AllState> make(std::vector<std::shared_ptr<FutureState<T>>> parts) {
    auto state = std::make_shared<AllState>(std::move(parts));
    for (const auto& part : state->parts_) {
      // Weak: a future that nobody wants is not kept.
      part->on_ready([weak = std::weak_ptr<AllState>{state}] {
        if (const auto self = weak.lock())
          self->one_is_ready();
      });
      state->near = state->near || part->near;
    }
    state->one_is_ready(); // counted as one of them, so that it is not ready before the last is known
    return state;
  }

  explicit AllState(std::vector<std::shared_ptr<FutureState<T>>> parts)
    : parts_(std::move(parts)), waited_for_(parts_.size() + 1) {
    // nop
  }

  Result<Values> take() override {
    std::optional<Error> error;
    if constexpr (std::is_void_v<T>) {
      for (const auto& part : parts_)
        if (auto result = part->take(); !result && !error)
          error = result.error();
      return error ? Result<Values>{fail(std::move(*error))} : Result<Values>{};
    } else {
      Values values;
      values.reserve(parts_.size());
      for (const auto& part : parts_) {
        auto result = part->take();
        if (result)
          values.push_back(std::move(*result));
        else if (!error)
          error = result.error();
      }
      return error ? Result<Values>{fail(std::move(*error))} : Result<Values>{std::move(values)};
    }
  }

  void cancel(Cancel how) override {
    for (const auto& part : parts_)
      part->cancel(how);
  }

  void give_up(Cancel how) override {
    for (const auto& part : parts_)
      part->give_up(how);
  }

  void refuse_own_wait() override {
    for (const auto& part : parts_)
      if (!part->ready())
        part->refuse_own_wait();
  }

private:
  void one_is_ready() {
    if (waited_for_.fetch_sub(1, std::memory_order_acq_rel) > 1 || !this->claim())
      return;
    for (const auto& part : parts_)
      if (this->executor == nullptr)
        this->executor = part->executor;
    this->publish();
  }

  const std::vector<std::shared_ptr<FutureState<T>>> parts_;
  std::atomic<std::size_t> waited_for_;
};

template <class T>
struct IsFuture : std::false_type {};
template <class T>
struct IsFuture<Future<T>> : std::true_type {};

} // namespace detail

} // namespace gpuactors
