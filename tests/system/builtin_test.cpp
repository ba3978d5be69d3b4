#include <gpuactors/builtin/v1/builtin.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <apps/gpuactors/builtin/reference.hpp>
#include <support/catch.hpp>

#include <array>
#include <limits>

using namespace gpuactors;
namespace messages = gpuactors::builtin::v1;

namespace {

Cluster embed() {
  EmbedOptions options;
  options.devices = "host:1x64MiB";
  auto cluster = Cluster::embed(std::move(options));
  REQUIRE(cluster.has_value());
  return std::move(*cluster);
}

template <class Message>
Message bytes(std::int64_t count) {
  Message result;
  result.set_bytes(count);
  return result;
}

messages::Add add(std::int64_t n) {
  messages::Add result;
  result.set_n(n);
  return result;
}

messages::Crash crash(const std::string& how) {
  messages::Crash result;
  result.set_how(how);
  return result;
}

} // namespace

TEST_CASE("a counter counts, says where it is, and survives an exception", "[builtin]") {
  auto cluster = embed();
  const auto counter = cluster.spawn("counter", google::protobuf::Empty{}, {.gpus = 0.25});
  REQUIRE(counter.has_value());
  CHECK(counter->call<messages::CounterValue>("add", add(3)).get()->value() == 3);
  const auto refused = counter->call("crash", crash("softly")).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error() == Error{Errc::invalid_argument, "how is \"softly\": abort, segv, throw or hang is expected"});
  const auto thrown = counter->call("crash", crash("throw")).get();
  REQUIRE_FALSE(thrown.has_value());
  CHECK(thrown.error().code() == Errc::task_failed);
  const auto overflow =
      counter->call<messages::CounterValue>("add", add(std::numeric_limits<std::int64_t>::max())).get();
  REQUIRE_FALSE(overflow.has_value());
  CHECK(overflow.error().code() == Errc::invalid_argument);
  CHECK(counter->call<messages::CounterValue>("get").get()->value() == 3);
  const auto where = counter->call<messages::Where>("where").get();
  REQUIRE(where.has_value());
  CHECK(where->node() == "local");
  CHECK(where->restarts() == 0);
  REQUIRE(where->devices_size() == 1);
  CHECK(where->devices(0).share() == 0.25);
  CHECK(where->devices(0).memory_bytes() == 16U << 20);
}

TEST_CASE("a counter needs no device", "[builtin]") {
  auto cluster = embed();
  const auto counter = cluster.spawn("counter");
  REQUIRE(counter.has_value());
  CHECK(counter->call<messages::Where>("where").get()->devices_size() == 0);
}

TEST_CASE("a holder holds memory up to its limit, and frees the newest first", "[builtin]") {
  auto cluster = embed();
  const auto holder = cluster.spawn("holder", google::protobuf::Empty{}, {.memory_bytes = 1U << 20});
  REQUIRE(holder.has_value());
  const auto call = [&](std::string_view method, auto in) {
    return holder->call<messages::Holding>(method, std::move(in)).get();
  };
  const auto first = call("allocate", bytes<messages::Allocate>(500'000));
  REQUIRE(first.has_value());
  CHECK(first->used_bytes() >= 500'000);
  CHECK(first->limit_bytes() == 1U << 20);
  REQUIRE(call("allocate", bytes<messages::Allocate>(200'000)).has_value());
  const auto beyond = call("allocate", bytes<messages::Allocate>(500'000));
  REQUIRE_FALSE(beyond.has_value());
  CHECK(beyond.error().code() == Errc::out_of_memory);
  CHECK(call("used", google::protobuf::Empty{})->allocations() == 2);
  CHECK(call("free", bytes<messages::Free>(1))->used_bytes() == first->used_bytes());
  CHECK(call("free", bytes<messages::Free>(500'001)).error().code() == Errc::invalid_argument);
  CHECK(call("free", bytes<messages::Free>(-1)).error().code() == Errc::invalid_argument);
  const auto empty = call("free", messages::Free{});
  CHECK(empty->used_bytes() == 0);
  CHECK(empty->allocations() == 0);
  CHECK(call("free", messages::Free{}).has_value());
}

TEST_CASE("a holder refuses sizes that are none, and to be without a device", "[builtin]") {
  auto cluster = embed();
  const auto holder = cluster.spawn("holder");
  REQUIRE(holder.has_value());
  for (const std::int64_t size : {0, -5}) {
    const auto refused = holder->call<messages::Holding>("allocate", bytes<messages::Allocate>(size)).get();
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == Errc::invalid_argument);
  }
  const auto homeless = holder->call<messages::Holding>("allocate", bytes<messages::Allocate>(1)).get();
  REQUIRE_FALSE(homeless.has_value());
  CHECK(homeless.error().code() == Errc::invalid_argument);
}

TEST_CASE("a sleeping task that is cancelled leaves its device to the next one", "[builtin]") {
  auto cluster = embed();
  messages::Sleep day;
  day.set_seconds(86'400);
  auto sleeper = cluster.submit<messages::Slept>("sleep", day, {.gpus = 1});
  sleeper.cancel();
  CHECK(sleeper.get().error().code() == Errc::cancelled);
  CHECK(cluster.submit<messages::Slept>("sleep", messages::Sleep{}, {.gpus = 1}).get().has_value());
}

TEST_CASE("references are what they say", "[builtin]") {
  CHECK(reference::sample_rows(10, 3) == std::vector<std::int64_t>{0, 4, 9});
  CHECK(reference::sample_rows(2, 8) == std::vector<std::int64_t>{0, 1});
  CHECK(reference::sample_rows(5, 1) == std::vector<std::int64_t>{0});
  CHECK(reference::sample_rows(0, 4).empty());
  const std::array<float, 4> a{1, 2, 3, 4};
  const std::array<float, 4> b{5, 6, 7, 8};
  CHECK(reference::product_row(std::span<const float>{a}, std::span<const float>{b}, 2, 2, 1)
        == std::vector<double>{43, 50});
  CHECK(reference::gram_row(std::span<const float>{a}, 2, 2, 0) == std::vector<double>{5, 11});
  CHECK(reference::random_values<float>(7, 2)[1] == static_cast<float>(reference::random_values<double>(7, 2)[1]));
  reference::ErrorMeter meter;
  CHECK(meter.relative() == 0);
  meter.add(4.0, 4.0);
  meter.add(3.0, 3.5);
  CHECK(meter.relative() == 0.1);
  CHECK(meter.largest() == 0.5);
  meter.add(1.0, std::numeric_limits<double>::quiet_NaN());
  CHECK(meter.relative() == std::numeric_limits<double>::infinity());
}
