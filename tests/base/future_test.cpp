// Futures: waiting for one of many, or for all; results that are made from others; misuse that is answered.
#include <gpuactors/base/future.hpp>

#include <support/catch.hpp>
#include <support/heap.hpp>
#include <support/results.hpp>

#include <future>
#include <stdexcept>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

TEST_CASE("who waits for futures that are not ready leaves nothing behind on them", "[base]") {
  std::vector<std::shared_ptr<detail::FutureState<int>>> states(100);
  std::vector<detail::FutureCore*> cores;
  for (auto& state : states)
    cores.push_back((state = std::make_shared<detail::FutureState<int>>()).get());
  const auto wait = [&] { CHECK(detail::wait_for(cores, 1, Clock::now()).empty()); };
  wait();
  const auto before = allocated_bytes();
  for (int i = 0; i < 1'000; ++i)
    wait();
  CHECK(allocated_bytes() < before + 100'000);
  states[7]->complete(1);
  CHECK(detail::wait_for(cores, 1, never) == std::vector<std::size_t>{7});
}

TEST_CASE("an observer that was forgotten is not called, and others are", "[base]") {
  detail::FutureState<int> state;
  int first = 0;
  int second = 0;
  const auto number = state.on_ready([&] { ++first; });
  CHECK(state.on_ready([&] { ++second; }) != number);
  state.forget(number);
  state.forget(number);
  state.complete(1);
  state.forget(number);
  CHECK(first == 0);
  CHECK(second == 1);
  CHECK(state.on_ready([&] { ++first; }) == 0);
  CHECK(first == 1);
}

TEST_CASE("a future is transformed into another, and errors pass by the function", "[base]") {
  CHECK(Future<int>::ready_with(20).transform([](int value) { return value + 0.5; }).get().value() == 20.5);
  const auto half = [](int value) -> Result<int> {
    if (value % 2 != 0)
      return fail(Errc::invalid_argument, "it is odd");
    return value / 2;
  };
  CHECK(Future<int>::ready_with(20).transform(half).get().value() == 10);
  CHECK(Future<int>::ready_with(7).transform(half).get().error().message() == "it is odd");
  int calls = 0;
  const auto count = [&] { ++calls; };
  CHECK(Future<void>::ready_with({}).transform(count).get().has_value());
  CHECK(Future<void>::ready_with(fail(Errc::unavailable, "away")).transform(count).get().error().message() == "away");
  CHECK(calls == 1);
  static const std::string text{"kept"};
  CHECK(Future<int>::ready_with(1).transform([](int) -> const std::string& { return text; }).get().value() == "kept");
}

TEST_CASE("what a future is transformed by runs where the result is taken, and its exceptions are errors", "[base]") {
  Promise<int> promise;
  const auto executor = std::make_shared<Executor>();
  auto source = promise.future();
  source.state()->executor = executor;
  executor->stop();
  int calls = 0;
  auto doubled = std::move(source).transform([&](int value) {
    ++calls;
    return 2 * value;
  });
  CHECK_FALSE(doubled.ready());
  CHECK(promise.set(21));
  CHECK(doubled.ready());
  CHECK(calls == 0);
  // No thread is left for callbacks, and none is needed.
  CHECK(doubled.get().value() == 42);
  CHECK(calls == 1);

  const auto thrown = [](auto&& error) {
    return Future<int>::ready_with(1).transform([&](int) -> int { throw error; }).get().error();
  };
  CHECK(thrown(FailedResult{Error{Errc::queue_full, "no room"}}) == Error{Errc::queue_full, "no room"});
  CHECK(thrown(std::runtime_error{"boom"})
        == Error{Errc::task_failed, "the function of a future threw an exception: boom"});
  CHECK(thrown(7).code() == Errc::task_failed);
}

TEST_CASE("callbacks may return something, and run even when the cluster's thread for them is gone", "[base]") {
  Promise<int> promise;
  const auto executor = std::make_shared<Executor>();
  auto future = promise.future();
  future.state()->executor = executor;
  executor->stop();
  std::optional<int> told;
  std::move(future).then([&](Result<int> result) {
    told = result.value();
    return true;
  });
  CHECK(promise.set(7));
  CHECK(told == 7);
}

TEST_CASE("what a callback owns is destroyed where it runs, not where the result comes from", "[base]") {
  struct Owned {
    std::thread::id* destroyed_on;

    ~Owned() {
      *destroyed_on = std::this_thread::get_id();
    }
  };
  for (int i = 0; i < 1'000; ++i) {
    Promise<int> promise;
    const auto executor = std::make_shared<Executor>();
    auto future = promise.future();
    future.state()->executor = executor;
    std::thread::id destroyed_on;
    std::thread::id ran_on;
    auto owned = std::make_shared<Owned>(&destroyed_on);
    auto made = std::move(future).transform([owned](int value) { return value; });
    std::move(made).then(
        [owned = std::move(owned), &ran_on](const Result<int>&) { ran_on = std::this_thread::get_id(); });
    CHECK(promise.set(1));
    executor->stop();
    REQUIRE(destroyed_on == ran_on);
  }
}

TEST_CASE("an exception of a callback ends nothing", "[base]") {
  Promise<int> promise;
  const auto executor = std::make_shared<Executor>();
  for (int i = 0; i < 2; ++i) {
    auto future = promise.future();
    future.state()->executor = executor;
    std::move(future).then([](const Result<int>& result) {
      if (result)
        throw std::runtime_error{"of a test"};
    });
    CHECK(promise.set(1));
    promise = {};
  }
  bool ran = false;
  executor->post([&] { ran = true; });
  executor->stop();
  CHECK(ran);
}

TEST_CASE("a callback may end the thread of callbacks, and those behind it run", "[base]") {
  std::vector<int> ran;
  std::promise<void> posted;
  std::promise<void> last;
  auto executor = std::make_unique<Executor>();
  executor->post([&] {
    posted.get_future().wait();
    executor = nullptr;
    ran.push_back(1);
  });
  executor->post([&] { ran.push_back(2); });
  executor->post([&] { last.set_value(); });
  posted.set_value();
  last.get_future().wait();
  CHECK(ran == std::vector{1, 2});
}

TEST_CASE("cancelling a transformed future withdraws the work that it was made from", "[base]") {
  struct Withdrawable : detail::FutureState<int> {
    void cancel(Cancel) override {
      complete(fail(Errc::cancelled, "withdrawn"));
    }
  };
  auto text = Future<int>{std::make_shared<Withdrawable>()}.transform([](int value) { return std::to_string(value); });
  CHECK_FALSE(text.ready());
  text.cancel();
  CHECK(text.get().error().code() == Errc::cancelled);
}

TEST_CASE("work that starts with the result of other work is one future with it", "[base]") {
  Promise<int> first;
  Promise<std::string> second;
  int calls = 0;
  auto both = first.future().and_then([&](int value) {
    calls += value;
    return second.future();
  });
  CHECK(calls == 0);
  CHECK(first.set(3));
  // It is started although nobody waits yet, and once.
  CHECK(calls == 3);
  CHECK_FALSE(both.ready());
  CHECK(second.set(std::string{"done"}));
  CHECK(both.ready());
  CHECK(both.get().value() == "done");
  CHECK_FALSE(both.valid());
}

TEST_CASE("an error of the first work, or of what starts the second, is that of both", "[base]") {
  int calls = 0;
  const auto start = [&](int value) -> Result<Future<int>> {
    ++calls;
    if (value < 0)
      return fail(Errc::invalid_argument, "below zero");
    if (value == 0)
      throw std::runtime_error{"zero"};
    return value == 1 ? Future<int>{} : Future<int>::ready_with(2 * value);
  };
  const auto both = [&](Result<int> first) { return Future<int>::ready_with(std::move(first)).and_then(start).get(); };
  CHECK(both(fail(Errc::unavailable, "away")).error().message() == "away");
  CHECK(calls == 0);
  CHECK(both(-1).error().message() == "below zero");
  CHECK(both(0).error().code() == Errc::task_failed);
  CHECK(both(1).error().code() == Errc::invalid_argument);
  CHECK(both(2).value() == 4);
  CHECK(Future<void>::ready_with({}).and_then([] { return Future<int>::ready_with(1); }).get().value() == 1);
  CHECK(Future<int>{}.and_then(start).get().error().code() == Errc::invalid_argument);
}

TEST_CASE("what the second work is transformed by runs where the result of both is taken", "[base]") {
  Promise<int> second;
  std::thread::id where;
  auto both = Future<int>::ready_with(1).and_then([&](int) {
    return second.future().transform([&](int value) {
      where = std::this_thread::get_id();
      return value + 1;
    });
  });
  std::thread{[&] { CHECK(second.set(1)); }}.join();
  CHECK(where == std::thread::id{});
  CHECK(both.get().value() == 2);
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("cancelling two pieces of work withdraws the one that is under way", "[base]") {
  struct Work : detail::FutureState<int> {
    void cancel(Cancel how) override {
      asked.push_back(how);
    }
    std::vector<Cancel> asked;
  };
  const auto first = std::make_shared<Work>();
  const auto second = std::make_shared<Work>();
  const std::vector once{Cancel::ask};
  Future<int> both;
  both = Future<int>{first}.and_then([&](int) {
    // As another thread may do in this moment.
    both.cancel(Cancel::force);
    return Future<int>{second};
  });
  both.cancel();
  CHECK(first->asked == once);
  first->complete(1);
  CHECK(second->asked == std::vector{Cancel::force});
  both.cancel();
  CHECK(second->asked == std::vector{Cancel::force, Cancel::ask});
  second->complete(fail(Errc::cancelled, "withdrawn"));
  CHECK(both.get().error().code() == Errc::cancelled);
}

TEST_CASE("work that is over for its future can still be cancelled by force", "[base]") {
  struct Stubborn : detail::FutureState<int> {
    explicit Stubborn(std::vector<Cancel>& list) : asked(list) {
      // nop
    }
    void cancel(Cancel how) override {
      asked.push_back(how);
      complete(fail(Errc::cancelled, "withdrawn"));
    }
    std::vector<Cancel>& asked;
  };
  std::vector<Cancel> asked;
  int calls = 0;
  auto both = Future<int>{std::make_shared<Stubborn>(asked)}.and_then([&](int value) {
    ++calls;
    return Future<int>::ready_with(value);
  });
  both.cancel();
  both.cancel(Cancel::force);
  CHECK(asked == std::vector{Cancel::ask, Cancel::force});
  CHECK(both.get().error().code() == Errc::cancelled);
  CHECK(calls == 0);
}

TEST_CASE("a callback behind two pieces of work runs on the cluster's thread if one of them is its", "[base]") {
  const auto executor = std::make_shared<Executor>();
  const auto runs_there = [&](bool of_first, bool of_second, bool made) {
    Promise<int> first;
    Promise<int> second;
    auto one = first.future();
    auto two = second.future();
    if (of_first)
      one.state()->executor = executor;
    if (of_second)
      two.state()->executor = executor;
    std::promise<std::thread::id> where;
    auto both = std::move(one).and_then([&](int) -> Result<Future<int>> {
      if (made)
        return std::move(two);
      return fail(Errc::unavailable, "away");
    });
    std::move(both).transform([](int value) { return value; }).then([&](Result<int>) {
      where.set_value(std::this_thread::get_id());
    });
    CHECK(first.set(1));
    CHECK(second.set(2));
    return where.get_future().get() != std::this_thread::get_id();
  };
  CHECK_FALSE(runs_there(false, false, true));
  CHECK(runs_there(true, false, true));
  CHECK(runs_there(false, true, true));
  CHECK(runs_there(true, true, true));
  CHECK(runs_there(true, false, false));
}

TEST_CASE("a future is waited for without taking its result, and an error of the work is none of the waiting",
          "[base]") {
  Promise<int> promise;
  auto future = promise.future();
  CHECK_FALSE(future.wait(0s));
  promise.set(fail(Errc::deadline_exceeded, "the work was late"));
  CHECK(future.wait(0s));
  REQUIRE(future.valid());
  CHECK(future.get().error().message() == "the work was late");
  CHECK(future.wait(0s));
}

TEST_CASE("futures are waited for until one is ready, and taken from where they were made", "[base]") {
  std::vector<Future<int>> futures;
  futures.push_back(Promise<int>{}.future());
  futures.push_back(Future<int>::ready_with(2));
  CHECK(wait(futures).front() == 0);
  const auto both = [] {
    std::vector<Future<int>> made;
    made.push_back(Future<int>::ready_with(1));
    made.push_back(Future<int>::ready_with(2));
    return made;
  };
  CHECK(get_all(both()).value() == std::vector{1, 2});
}

TEST_CASE("all of several futures are waited for, in their order, and the first error is told", "[base]") {
  const auto values = [](std::initializer_list<Result<int>> results) {
    std::vector<Future<int>> futures;
    for (const auto& result : results)
      futures.push_back(Future<int>::ready_with(result));
    return futures;
  };
  auto fine = values({1, 2, 3});
  CHECK(get_all(fine).value() == std::vector{1, 2, 3});
  auto one_fails = values({1, fail(Errc::task_failed, "no"), 3});
  CHECK(get_all(one_fails).error().message() == "no");
  CHECK(one_fails[2].get().value() == 3);
  std::vector<Future<void>> nothing;
  CHECK(get_all(nothing).has_value());
  const Promise<int> never_set;
  std::vector<Future<int>> late;
  late.push_back(never_set.future());
  CHECK(get_all(late, Duration::zero()).error().code() == Errc::deadline_exceeded);
  CHECK(late[0].valid());
}

TEST_CASE("the values of many futures are one future, ready with the last of them", "[base]") {
  Promise<int> first;
  Promise<int> second;
  std::vector<Future<int>> futures;
  futures.push_back(first.future());
  futures.push_back(second.future());
  futures.push_back(Future<int>::ready_with(3));
  auto all = when_all(std::move(futures));
  second.set(2);
  CHECK_FALSE(all.ready());
  first.set(1);
  CHECK(all.ready());
  CHECK(must(all.get()) == std::vector{1, 2, 3});
  CHECK(must(when_all(std::vector<Future<int>>{}).get()).empty());
}

TEST_CASE("of many futures that are one the first error counts, when all are over", "[base]") {
  std::vector<Promise<void>> promises(3);
  std::vector<Future<void>> futures;
  for (const auto& promise : promises)
    futures.push_back(promise.future());
  auto all = when_all(std::move(futures));
  promises[2].set(fail(Errc::out_of_memory, "the third"));
  promises[1].set(fail(Errc::unavailable, "the second"));
  CHECK_FALSE(all.ready());
  promises[0].set({});
  CHECK(all.get().error() == Error{Errc::unavailable, "the second"});
  std::vector<Future<void>> taken(1);
  CHECK(when_all(std::move(taken)).get().error().code() == Errc::invalid_argument);
}

TEST_CASE("cancelling the future of many cancels them all, and each promise is told once", "[base]") {
  std::vector<Promise<int>> promises(2);
  std::vector<Future<int>> futures;
  int told = 0;
  for (auto& promise : promises) {
    promise.on_cancel([&told] { ++told; });
    futures.push_back(promise.future());
  }
  auto all = when_all(std::move(futures));
  all.cancel();
  all.cancel();
  CHECK(told == 2);
  CHECK(promises.front().cancelled());
  CHECK_FALSE(promises.front().set(1));
  CHECK(all.get().error().code() == Errc::cancelled);
}

TEST_CASE("a promise is told that nobody wants its result, also later, and not once it was kept", "[base]") {
  Promise<int> unwanted;
  auto future = unwanted.future();
  CHECK_FALSE(unwanted.cancelled());
  future.cancel();
  CHECK(unwanted.cancelled());
  bool told = false;
  unwanted.on_cancel([&told] { told = true; });
  CHECK(told);
  CHECK(future.get().error().code() == Errc::cancelled);
  Promise<int> kept;
  auto wanted = kept.future();
  const auto owned = std::make_shared<int>(0);
  kept.on_cancel([owned] { ++*owned; });
  CHECK(kept.set(1));
  CHECK(owned.use_count() == 1);
  wanted.cancel();
  CHECK(*owned == 0);
  CHECK(must(wanted.get()) == 1);
}

TEST_CASE("what a function throws that a promise has for its cancellation ends there", "[base]") {
  Promise<int> early;
  auto future = early.future();
  early.on_cancel([] { throw 1; });
  future.cancel();
  CHECK(future.get().error().code() == Errc::cancelled);
  Promise<int> late;
  auto other = late.future();
  other.cancel();
  late.on_cancel([] { throw std::runtime_error{"too late"}; });
  CHECK(late.cancelled());
}

TEST_CASE("a promise that was kept drops what it is given for its cancellation, which may own it", "[base]") {
  const auto promise = std::make_shared<Promise<int>>();
  auto future = promise->future();
  CHECK(promise->set(1));
  promise->on_cancel([promise] {});
  CHECK(promise.use_count() == 1);
  CHECK(must(future.get()) == 1);
}

TEST_CASE("cancelling a future behind others reaches the promise that it waits for", "[base]") {
  Promise<int> first;
  Promise<int> second;
  auto chain =
      first.future().and_then([&](int) { return second.future(); }).transform([](int value) { return value + 1; });
  first.set(1);
  chain.cancel();
  CHECK(second.cancelled());
  CHECK(chain.get().error().code() == Errc::cancelled);
}

TEST_CASE("a future without a result to wait for, and a promise without a future, answer and do not crash", "[base]") {
  std::optional<Result<int>> told;
  Future<int>{}.then([&](Result<int> result) { told = std::move(result); });
  REQUIRE(told);
  CHECK(told->error().code() == Errc::invalid_argument);
  CHECK(Future<int>{}.transform([](int value) { return value; }).get().error().code() == Errc::invalid_argument);
  Promise<int> first;
  const auto second = std::move(first);
  CHECK_FALSE(first.set(1)); // NOLINT(bugprone-use-after-move)
}

TEST_CASE("a future is cancelled by one thread while another waits for it, and a third brings the result", "[base]") {
  for (int i = 0; i < 500; ++i) {
    auto promise = std::make_unique<Promise<int>>();
    auto future = promise->future();
    std::thread canceller{[&] { future.cancel(); }};
    std::thread producer{[&] {
      promise->set(i);
      promise = nullptr;
    }};
    const auto result = future.get();
    canceller.join();
    producer.join();
    if (result)
      REQUIRE(*result == i);
    else
      REQUIRE(code_of(result) == Errc::cancelled);
  }
}

TEST_CASE("results that were taken are not waited for", "[future]") {
  std::vector<Future<int>> futures;
  futures.push_back(Future<int>::ready_with(1));
  futures.push_back(Future<int>::ready_with(2));
  CHECK(futures[0].get().has_value());
  CHECK(wait(futures, 2) == std::vector<std::size_t>{1});
  CHECK(futures[1].get().has_value());
  CHECK(wait(futures).empty());
}

TEST_CASE("waits that are under way end when whoever waits has to go, and later ones do not", "[future]") {
  std::thread{[] {
    const auto end = std::make_shared<std::atomic<bool>>(false);
    detail::set_wait_end(end);
    std::mutex mutex;
    std::condition_variable wake;
    std::unique_lock lock{mutex};
    int looks = 0;
    // It comes while the wait is under way.
    CHECK_FALSE(detail::wait_on(wake, lock, never, [&] {
      if (++looks == 2)
        end->store(true);
      return false;
    }));
    CHECK_FALSE(detail::wait_on(wake, lock, Clock::now(), [] { return false; }));
    CHECK(detail::wait_on(wake, lock, never, [] { return true; }));
    auto future = Future<int>::ready_with(7);
    CHECK(future.get().value() == 7);
  }}.join();
}
