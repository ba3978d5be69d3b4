// Stores of two processes, here both in one: what one put the other gets.
#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/device/discovery.hpp>

#include <support/eventually.hpp>
#include <support/results.hpp>

#include <numeric>
#include <thread>

using namespace gpuactors;
using gpuactors::test::eventually;
using gpuactors::test::must;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t large = 1U << 18; // floats: large enough to be mapped

TensorLinks links(bool shares_memory) {
  TensorLinks result;
  result.listening.host = "127.0.0.1";
  result.shares_memory = shares_memory;
  return result;
}

struct Pair {
  std::shared_ptr<TensorStore> owner;
  std::shared_ptr<TensorStore> reader;

  explicit Pair(bool shares_memory = true)
    : owner(std::make_shared<TensorStore>(links(shares_memory))),
      reader(std::make_shared<TensorStore>(links(shares_memory))) {
    // nop
  }
};

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

Shared<Tensor> put(TensorStore& store, const std::vector<float>& values) {
  return must(store.put_copy(values.data(), values.size(), DType::f32, {static_cast<std::int64_t>(values.size())}));
}

} // namespace

TEST_CASE("what one store has another one fetches, of any size, once", "[actor]") {
  const bool shares_memory = GENERATE(true, false);
  const auto count = GENERATE(std::size_t{0}, std::size_t{5}, large);
  Pair pair{shares_memory};
  const auto values = counting(count);
  const auto shared = put(*pair.owner, values);
  const auto got = must(pair.reader->get(shared.ref()));
  CHECK(got.shape() == shared.shape());
  CHECK(got.dtype() == DType::f32);
  CHECK(must(got.to_host<float>()) == values);
  const auto span = must(got.host<float>());
  CHECK(std::equal(span.begin(), span.end(), values.begin(), values.end()));
  const auto again = must(pair.reader->get(shared.ref()));
  CHECK(must(again.host<float>()).data() == span.data());
  CHECK(pair.reader->size() == 1);
  CHECK(got.host<double>().error().code() == Errc::invalid_argument);
}

TEST_CASE("who has fetched a tensor passes it on himself", "[actor]") {
  Pair pair;
  auto shared = put(*pair.owner, counting(large));
  auto second = must(pair.reader->get(shared.ref()));
  shared = {};
  pair.owner->close();
  const auto third = std::make_shared<TensorStore>(links(true));
  CHECK(must(must(third->get(second.ref())).to_host<float>()) == counting(large));
}

TEST_CASE("a tensor on a device is brought to host memory for those who fetch it", "[actor]") {
  const bool shares_memory = GENERATE(true, false);
  Pair pair{shares_memory};
  auto devices = make_devices(*parse_device_specs("host:1x8MiB"), discovery_options("local"));
  REQUIRE(devices.has_value());
  auto context = must(Context::open(devices->front(), {.holder = "test"}));
  auto tensor =
      must(context->stream().tensor_from(counting(large), std::vector<std::int64_t>{static_cast<std::int64_t>(large)}));
  auto shared = must(pair.owner->put(std::move(tensor), context->stream()));
  auto got = must(pair.reader->get(shared.ref()));
  CHECK(must(got.to_host<float>()) == counting(large));
  CHECK(got.view().error().code() == Errc::unsupported);
  const auto back = must(got.on(context->stream()));
  CHECK(must(context->stream().to_host<float>(back)) == counting(large));
  const auto other = std::make_shared<TensorStore>(links(shares_memory));
  context.reset();
  CHECK(shared.host<float>().error().code() == Errc::actor_died);
  CHECK(other->get(shared.ref()).error().code() == Errc::actor_died);
  CHECK(must(got.to_host<float>()) == counting(large));
}

TEST_CASE("a hand-over ends when another process has it all", "[actor]") {
  const bool shares_memory = GENERATE(true, false);
  Pair pair{shares_memory};
  const auto ref = put(*pair.owner, counting(large)).hand_over();
  CHECK(pair.owner->size() == 1);
  const auto got = must(pair.reader->get(ref));
  CHECK(eventually([&] { return pair.owner->size() == 0; }));
  CHECK(must(got.to_host<float>()) == counting(large));
  // A second one of what is here already ends as well.
  auto shared = put(*pair.owner, counting(large));
  const auto held = must(pair.reader->get(shared.ref()));
  const auto second = std::move(shared).hand_over();
  CHECK(must(pair.reader->get(second)).size() == static_cast<std::int64_t>(large));
  CHECK(eventually([&] { return pair.owner->size() == 0; }));
}

TEST_CASE("each hand-over keeps the tensor by itself", "[actor]") {
  Pair pair;
  auto first = put(*pair.owner, counting(5));
  auto copy = first;
  const auto one = std::move(first).hand_over();
  const auto two = std::move(copy).hand_over();
  CHECK(must(pair.owner->get(one)).size() == 5);
  CHECK(must(pair.owner->get(two)).size() == 5);
  CHECK(pair.owner->size() == 0);
  CHECK(pair.owner->get(two).error().code() == Errc::not_found);
}

TEST_CASE("a hand-over that nobody takes ends by itself", "[actor]") {
  Pair pair;
  const auto ref = put(*pair.owner, counting(large)).hand_over(1ms);
  CHECK(eventually([&] { return pair.owner->size() == 0; }));
  CHECK(pair.reader->get(ref).error().code() == Errc::not_found);
}

TEST_CASE("when the owner's process ends, what was fetched stays and nothing more is got", "[actor]") {
  Pair pair;
  const auto shared = put(*pair.owner, counting(large));
  const auto other = put(*pair.owner, counting(large));
  const auto got = must(pair.reader->get(shared.ref()));
  const auto ref = other.ref();
  pair.owner->close();
  CHECK(must(got.to_host<float>()) == counting(large));
  CHECK(pair.reader->get(ref).error().code() == Errc::worker_died);
  const auto closed = pair.owner->put_copy(nullptr, 0, DType::f32, {0});
  CHECK(closed.error().code() == Errc::unavailable);
}

TEST_CASE("references that make no sense are refused", "[actor]") {
  Pair pair;
  auto ref = put(*pair.owner, counting(5)).ref();
  CHECK(pair.reader->get(ref).error().code() == Errc::not_found); // nobody holds it
  const auto shared = put(*pair.owner, counting(5));
  ref = shared.ref();
  ref.set_shape(0, 4);
  CHECK(pair.reader->get(ref).error().code() == Errc::invalid_argument);
  ref.set_shape(0, -1);
  CHECK(pair.reader->get(ref).error().code() == Errc::invalid_argument);
  ref = shared.ref();
  ref.set_address("nowhere");
  CHECK(pair.reader->get(ref).error().code() == Errc::invalid_argument);
  ref.clear_address();
  CHECK(pair.reader->get(ref).error().code() == Errc::not_found);
}
