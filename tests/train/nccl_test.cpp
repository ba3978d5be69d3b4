// Sums by NCCL on a fake one: on the streams themselves, in order, and never waiting for the dead.
#include "lessons.hpp"

#include <gpuactors/device/discovery.hpp>

#include <apps/train/group.hpp>
#include <apps/train/nccl_sum.hpp>

#include <dlfcn.h>
#include <train/fake_nccl/nccl.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

namespace train::test {

using gpuactors::Context;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// A function that only the fake NCCL has.
template <class F>
F* from_fake(const char* name) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* function = reinterpret_cast<F*>(dlsym(library, name));
  REQUIRE(function != nullptr);
  return function;
}

std::string take_calls() {
  return from_fake<const char*()>("fake_nccl_take_calls")();
}

int live() {
  return from_fake<int()>("fake_nccl_live")();
}

/// A function fails as long as this lives.
struct Failing {
  Failing(const char* function, int code) : name(function) {
    from_fake<void(const char*, int)>("fake_nccl_fail")(name, code);
  }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
  ~Failing() {
    from_fake<void(const char*, int)>("fake_nccl_fail")(name, 0);
  }

  const char* name;
};

/// Counts how often somebody was woken.
struct Alarm {
  void ring() {
    const std::lock_guard lock{mutex};
    ++rung;
    changed.notify_all();
  }

  /// Asks again and again, whenever it is woken, until the answer is yes or an error.
  template <class Ask>
  Result<void> await(const Ask& ask) {
    for (;;) {
      std::unique_lock lock{mutex};
      const auto before = rung;
      lock.unlock();
      GPUACTORS_LET(done, ask());
      if (done)
        return {};
      lock.lock();
      REQUIRE(changed.wait_for(lock, std::chrono::seconds{30}, [&] { return rung != before; }));
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  int rung = 0;
};

/// What a member of a group has: a part of the device, gradients and their sum.
struct Place {
  explicit Place(gpuactors::DType dtype = gpuactors::DType::f32, const char* device = "cuda") {
    const auto specs = must(gpuactors::parse_device_specs(device));
    const auto devices = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
    gpuactors::ContextOptions options;
    options.share = must(gpuactors::Share::from_double(0.25, "gpus"));
    options.memory_bytes = 1 << 20;
    context = must(Context::open(devices.front(), options));
    gradients = must(context->stream().tensor(dtype, {5}));
  }

  Result<void> join(const std::string& id, int members, int rank) {
    return join(NcclSum::Place{id, members, rank});
  }

  Result<void> join(const NcclSum::Place& place) {
    GPUACTORS_LET(made, NcclSum::join(context->stream(), gradients, place, [bell = alarm] { bell->ring(); }));
    sum = std::move(made);
    return {};
  }

  template <class T>
  void fill(T value) {
    const std::vector<T> values(5, value);
    must(context->stream().upload(gradients.raw(), values.data(), gradients.bytes()));
    must(context->stream().synchronize());
  }

  void await_ready() {
    must(alarm->await([this] { return sum->ready(); }));
  }

  std::shared_ptr<Alarm> alarm = std::make_shared<Alarm>();
  std::unique_ptr<Context> context;
  gpuactors::Tensor gradients;
  std::unique_ptr<NcclSum> sum;
};

std::vector<std::unique_ptr<Place>> make_group(int members, gpuactors::DType dtype = gpuactors::DType::f32) {
  const auto id = must(make_nccl_id());
  std::vector<std::unique_ptr<Place>> group;
  for (int rank = 0; rank < members; ++rank) {
    group.push_back(std::make_unique<Place>(dtype));
    must(group.back()->join(id, members, rank));
  }
  return group;
}

template <class T>
void check_sums(int members) {
  auto group = make_group(members, gpuactors::dtype_of<T>);
  // More steps than may be on a stream at once.
  for (std::uint64_t step = 0; step < 70; ++step) {
    T expected{0};
    for (int rank = 0; rank < members; ++rank) {
      auto& place = *group[static_cast<std::size_t>(rank)];
      place.await_ready();
      const auto own = T(0.5) * static_cast<T>(rank + 1) + static_cast<T>(step);
      place.template fill<T>(own);
      must(place.sum->begin());
      expected += own;
    }
    for (const auto& place : group) {
      place->await_ready();
      CHECK(must(place->context->stream().template to_host<T>(place->gradients)) == std::vector<T>(5, expected));
    }
  }
}

} // namespace

TEST_CASE("members sum by NCCL on their streams, step after step", "[nccl]") {
  check_sums<float>(3);
  check_sums<double>(2);
  CHECK(live() == 0);
}

TEST_CASE("nobody waits for a member that has not come", "[nccl]") {
  const auto id = must(make_nccl_id());
  Place alone;
  must(alone.join(id, 2, 0));
  CHECK_FALSE(must(alone.sum->ready()));
  SECTION("it is ready when the other comes") {
    Place other;
    must(other.join(id, 2, 1));
    alone.await_ready();
  }
  SECTION("it is given up") {
    take_calls();
    alone.sum->abandon();
    CHECK(alone.sum->ready().error().code() == Errc::cancelled);
    CHECK(alone.sum->begin().error().code() == Errc::cancelled);
    alone.sum.reset();
    CHECK(take_calls() == "ncclCommAbort 0");
  }
  alone.sum.reset();
  CHECK(live() == 0);
}

TEST_CASE("a sum that is begun before its communicator is made fails, and no later one is possible", "[nccl]") {
  const auto id = must(make_nccl_id());
  Place early;
  must(early.join(id, 2, 0));
  CHECK(early.sum->begin().error().message() == "ncclAllReduce: it failed (4)");
  Place other;
  must(other.join(id, 2, 1));
  CHECK(early.sum->ready().error().message() == "ncclCommGetAsyncError: it failed (4)");
}

TEST_CASE("a member that dies in a sum is waited for until the sum is given up, and no longer", "[nccl]") {
  auto group = make_group(3);
  for (const auto& place : group)
    place->await_ready();
  take_calls();
  for (const std::size_t rank : {0, 1}) {
    group[rank]->fill<float>(1);
    must(group[rank]->sum->begin());
    CHECK(must(group[rank]->sum->ready())); // more could be queued
    CHECK_FALSE(must(group[rank]->sum->settled()));
  }
  group[2].reset();
  for (const std::size_t rank : {0, 1}) {
    group[rank]->sum->abandon();
    // The stream gets to its end and can be used.
    group[rank]->fill<float>(2);
    CHECK(must(group[rank]->context->stream().to_host<float>(group[rank]->gradients)) == std::vector<float>(5, 2));
  }
  CHECK(take_calls() == "ncclAllReduce 0, ncclAllReduce 1, ncclCommAbort 2, ncclCommAbort 0, ncclCommAbort 1");
  CHECK(live() == 0);
}

TEST_CASE("who gives a sum up goes on while NCCL still waits for what was queued before", "[nccl]") {
  auto group = make_group(2);
  auto& place = *group.front();
  place.await_ready();
  const auto hold = from_fake<void(bool)>("fake_nccl_hold_aborts");
  hold(true);
  auto given_up = std::async(std::launch::async, [&place] { place.sum->abandon(); });
  CHECK(given_up.wait_for(std::chrono::seconds{10}) == std::future_status::ready);
  hold(false);
  given_up.get();
  CHECK(place.sum->ready().error().code() == Errc::cancelled);
  group.clear();
  CHECK(live() == 0);
}

TEST_CASE("queueing stops before it could block behind a member that died", "[nccl]") {
  auto group = make_group(2);
  auto& place = *group.front();
  place.await_ready();
  std::uint64_t begun = 0;
  for (; must(place.sum->ready()); ++begun)
    must(place.sum->begin());
  CHECK(begun == 32);
  place.sum->abandon();
  must(place.context->stream().synchronize());
}

TEST_CASE("steps of many operations are fewer at once", "[nccl]") {
  for (const auto& [operations, expected] : {std::pair{100, 5}, {10'000, 1}}) {
    const auto id = must(make_nccl_id());
    std::array<Place, 2> places;
    for (int rank = 0; rank < 2; ++rank) {
      NcclSum::Place place{id, 2, rank};
      place.operations = static_cast<std::uint64_t>(operations);
      must(places[static_cast<std::size_t>(rank)].join(place));
    }
    auto& place = places.front();
    place.await_ready();
    int begun = 0;
    for (; must(place.sum->ready()); ++begun)
      must(place.sum->begin());
    CHECK(begun == expected);
    place.sum->abandon();
    must(place.context->stream().synchronize());
  }
}

TEST_CASE("a member is woken soon after NCCL has begun a sum on a thread of its own", "[nccl]") {
  auto group = make_group(2);
  from_fake<void(int)>("fake_nccl_begin_slowly")(3);
  const auto begin = gpuactors::Clock::now();
  for (std::uint64_t step = 0; step < 200; ++step)
    for (const auto& place : group) {
      place->await_ready();
      must(place->sum->begin());
    }
  for (const auto& place : group)
    must(place->alarm->await([&] { return place->sum->settled(); }));
  from_fake<void(int)>("fake_nccl_begin_slowly")(0);
  // By looks every 20 ms it would be 16 s at the least.
  CHECK(gpuactors::Clock::now() - begin < std::chrono::seconds{8});
}

TEST_CASE("a sum fails when NCCL is at work without an end", "[nccl]") {
  Place alone;
  NcclSum::Place place{must(make_nccl_id()), 2, 0};
  place.patience = std::chrono::milliseconds{30};
  must(alone.join(place));
  const auto waited = alone.alarm->await([&] { return alone.sum->ready(); });
  REQUIRE_FALSE(waited);
  CHECK(waited.error().message() == "NCCL was at work for 0.03 s without an end");
  alone.sum.reset();
  CHECK(live() == 0);
}

TEST_CASE("what is settled is on no stream any more", "[nccl]") {
  auto group = make_group(2);
  for (const auto& place : group) {
    place->await_ready();
    must(place->sum->begin());
  }
  for (const auto& place : group)
    must(place->alarm->await([&] { return place->sum->settled(); }));
}

TEST_CASE("what goes wrong in NCCL is told in its words, and its communicator is aborted once", "[nccl]") {
  const auto wrong = [](const Result<void>& result) { return result ? std::string{} : result.error().message(); };
  auto group = make_group(2);
  auto& place = *group.front();
  place.await_ready();
  take_calls();
  SECTION("on the host, later") {
    const Failing failing{"ncclCommGetAsyncError", 6};
    const auto failed = place.alarm->await([&]() -> Result<bool> {
      GPUACTORS_TRY(place.sum->ready());
      return false;
    });
    CHECK(wrong(failed) == "ncclCommGetAsyncError: remote process exited or there was a network error (6)");
    CHECK(place.sum->settled().error().code() == Errc::unavailable);
    place.sum.reset();
    const auto calls = take_calls();
    CHECK(calls.find("ncclCommAbort 0") != std::string::npos);
    CHECK(calls.find("ncclCommAbort 0") == calls.rfind("ncclCommAbort 0"));
  }
  SECTION("in a sum") {
    const Failing failing{"ncclAllReduce", 3};
    CHECK(wrong(place.sum->begin()) == "ncclAllReduce: it failed (3)");
  }
  SECTION("in the beginning") {
    const Failing failing{"ncclCommInitRankConfig", 2};
    Place other;
    CHECK(wrong(other.join(must(make_nccl_id()), 2, 0)) == "ncclCommInitRankConfig: it failed (2)");
    const Failing no_id{"ncclGetUniqueId", 2};
    CHECK(make_nccl_id().error().message() == "ncclGetUniqueId: it failed (2)");
  }
  group.clear();
  CHECK(live() == 0);
}

TEST_CASE("what is no group of NCCL's is refused", "[nccl]") {
  const auto id = must(make_nccl_id());
  Place place;
  CHECK(place.join("short", 2, 0).error().code() == Errc::invalid_argument);
  CHECK(place.join(id, 2, 2).error().code() == Errc::invalid_argument);
  CHECK(place.join(id, 2, -1).error().code() == Errc::invalid_argument);
  Place on_host{gpuactors::DType::f32, "host:1"};
  CHECK(on_host.join(id, 2, 0).error().code() == Errc::unsupported);
  must(place.join(id, 2, 0));
}

TEST_CASE("NCCL sums for groups on CUDA devices of their own, and messages for all others", "[nccl]") {
  const auto member = [](const char* uuid, int version) {
    Status status;
    status.set_device_uuid(uuid);
    status.set_nccl_version(version);
    return status;
  };
  CHECK(can_sum_by_nccl({member("GPU-a", 22105), member("GPU-b", 22105)}));
  CHECK_FALSE(can_sum_by_nccl({member("GPU-a", 22105), member("GPU-a", 22105)}));
  CHECK_FALSE(can_sum_by_nccl({member("GPU-a", 22105), member("GPU-b", 22203)}));
  CHECK_FALSE(can_sum_by_nccl({member("GPU-a", 22105), member("GPU-b", 0)}));
  CHECK_FALSE(can_sum_by_nccl({member("", 22105), member("", 22105)}));
  CHECK_FALSE(can_sum_by_nccl({member("GPU-a", 22105)}));
  CHECK_FALSE(can_sum_by_nccl({}));
  CHECK(nccl_version() == 22105);
}

TEST_CASE("an NCCL that is too old is none", "[.][old]") {
  CHECK(nccl_version() == 0);
  CHECK(says(make_nccl_id().error(), "NCCL is too old: 21303, and 2.14 is needed"));
}

} // namespace train::test
