// On the fake driver: memory that several have a part in, and memory that is had again.
#include <gpuactors/device/context.hpp>
#include <gpuactors/device/reservation.hpp>

#include <support/eventually.hpp>

#include <device/closed_gate.hpp>
#include <device/fake_driver.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
/// Of a lease; the device has 2 GiB.
constexpr std::uint64_t limit = 1536 * mib;
constexpr std::uint64_t most_of_it = 1200 * mib;

std::unique_ptr<Context> open_lease(const std::shared_ptr<Device>& device, std::shared_ptr<Quota> parent = nullptr) {
  return *Context::open(device, {Share{5000}, limit, "test", std::move(parent)});
}

/// A lease, and another in it.
struct Family {
  std::shared_ptr<Device> device = make_cuda_device();
  std::unique_ptr<Context> lease = open_lease(device);
  std::unique_ptr<Context> child = open_lease(device, lease->quota());
};

/// Has it for a moment, so that the pool keeps it.
void use_for_a_moment(Stream& stream) {
  REQUIRE(stream.allocate(most_of_it));
}

/// What a library does with the device, beside us.
std::uint64_t left_on(Device& device) {
  return device.memory()->free_bytes;
}

constexpr std::size_t count = 5000;

/// What the fake driver does with memory that is freed, for as long as this object lives.
struct Way {
  explicit Way(const char* function) : set(from_fake<void(bool)>(function)) {
    set(true);
  }
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  ~Way() {
    set(false);
  }

  void (*set)(bool);
};

} // namespace

TEST_CASE("what one has freed others of its lease get, although its pool keeps it") {
  const auto [device, lease, child] = Family{};
  const auto sibling = open_lease(device, lease->quota());
  use_for_a_moment(child->stream());
  REQUIRE(child->stream().synchronize());
  CHECK(left_on(*device) < limit);
  use_for_a_moment(sibling->stream());
  use_for_a_moment(lease->stream());
}

TEST_CASE("a lease and its children together keep no more than the lease") {
  const auto device = make_cuda_device();
  const auto all = left_on(*device);
  const auto lease = open_lease(device);
  use_for_a_moment(lease->stream());
  REQUIRE(lease->stream().synchronize());
  CHECK(left_on(*device) + most_of_it <= all);
  auto child = *Context::open(device, {Share{2000}, 900 * mib, "child", lease->quota()});
  CHECK(left_on(*device) == all);
  REQUIRE(child->stream().allocate(900 * mib));
  REQUIRE(lease->stream().allocate(600 * mib));
  REQUIRE(child->stream().synchronize());
  REQUIRE(lease->stream().synchronize());
  CHECK(left_on(*device) >= all - limit);
  // Others have the rest.
  CHECK(device->make_shared_memory(all - limit));
  child.reset();
  use_for_a_moment(lease->stream());
  REQUIRE(lease->stream().synchronize());
  CHECK(left_on(*device) + most_of_it <= all);
}

TEST_CASE("what a lease has freed its children get although nobody has waited for that") {
  const auto [device, lease, child] = Family{};
  const Way keep{"fake_cuda_keep_frees"};
  use_for_a_moment(lease->stream());
  use_for_a_moment(child->stream());
  // On the stream that is nobody's, as there are two.
  auto side = lease->make_stream();
  REQUIRE(side);
  use_for_a_moment(*side);
  use_for_a_moment(child->stream());
}

TEST_CASE("what a lease has freed behind work its children get when that is done") {
  const auto [device, lease, child] = Family{};
  const Way keep{"fake_cuda_keep_frees"};
  const auto gate = close_gate();
  REQUIRE(lease->stream().launch(gate, {}, {std::uint64_t{0}}));
  use_for_a_moment(lease->stream());
  const std::jthread opener{[] { open_gate(); }};
  use_for_a_moment(child->stream());
}

TEST_CASE("what a lease has freed its children get although it captures a graph meanwhile") {
  const auto [device, lease, child] = Family{};
  const Way keep{"fake_cuda_keep_frees"};
  auto& stream = lease->stream();
  auto x = *stream.tensor_from(std::vector<float>(16, 1.0F));
  use_for_a_moment(stream);
  const auto graph = stream.capture([&, &other = *child] {
    CHECK(std::async(std::launch::async, [&] { return other.stream().allocate(most_of_it).has_value(); }).get());
    return stream.copy(x, x);
  });
  REQUIRE(graph);
}

TEST_CASE("who needs what others of its lease only keep does not wait for work of its own that frees nothing") {
  const auto [device, lease, child] = Family{};
  use_for_a_moment(child->stream());
  REQUIRE(child->stream().synchronize());
  auto side = *lease->make_stream();
  const auto gate = close_gate();
  REQUIRE(side.launch(gate, {}, {std::uint64_t{0}}));
  auto had =
      std::async(std::launch::async, [&, &asks = *lease] { return asks.stream().allocate(most_of_it).has_value(); });
  CHECK(had.wait_for(std::chrono::seconds{10}) == std::future_status::ready);
  open_gate();
  CHECK(had.get());
  REQUIRE(side.synchronize());
}

TEST_CASE("memory that processes share is had although pools keep what they have freed") {
  const auto device = make_cuda_device();
  const auto lease = open_lease(device);
  use_for_a_moment(lease->stream());
  CHECK(device->make_shared_memory(most_of_it));
}

TEST_CASE("what others reserve for libraries, the pools of their lease do not keep") {
  const auto device = make_cuda_device();
  const auto lease = open_lease(device);
  use_for_a_moment(lease->stream());
  {
    const auto of_lease = Reservation::of(lease->quota(), most_of_it);
    REQUIRE(of_lease);
    CHECK(left_on(*device) >= most_of_it);
  }
  use_for_a_moment(lease->stream());
  CHECK(left_on(*device) < most_of_it);
  const auto child = open_lease(device, lease->quota());
  use_for_a_moment(child->stream());
  CHECK(left_on(*device) < most_of_it);
  const auto of_child = Reservation::of(child->quota(), most_of_it);
  REQUIRE(of_child);
  CHECK(left_on(*device) >= most_of_it);
  // And from then on.
  for (auto* context : {lease.get(), child.get()}) {
    REQUIRE(context->stream().allocate(300 * mib));
    REQUIRE(context->stream().synchronize());
    CHECK(left_on(*device) >= most_of_it);
  }
}

TEST_CASE("what was freed and nobody has waited for is there for libraries, too") {
  const auto device = make_cuda_device();
  const Way keep{"fake_cuda_keep_frees"};
  const auto lease = open_lease(device);
  use_for_a_moment(lease->stream());
  // As soon as the work before it is done.
  CHECK(test::eventually([&] {
    const auto reserved = Reservation::of(lease->quota(), most_of_it);
    return reserved && left_on(*device) >= most_of_it;
  }));
}

TEST_CASE("a lease of less than the driver's chunk keeps one from message to message") {
  const auto device = make_cuda_device();
  const auto all = left_on(*device);
  const auto small = *Context::open(device, {Share{100}, 16 * mib, "small", nullptr});
  for (int message = 0; message < 2; ++message) {
    REQUIRE(small->stream().allocate(mib));
    REQUIRE(small->stream().synchronize());
    CHECK(left_on(*device) == all - 32 * mib);
  }
  // But not beside what others reserve of it.
  const auto reserved = Reservation::of(small->quota(), mib);
  REQUIRE(reserved);
  CHECK(left_on(*device) == all);
}

TEST_CASE("a reservation that outlives its context tells nobody") {
  const auto device = make_cuda_device();
  auto lease = open_lease(device);
  auto reserved = Reservation::of(lease->quota(), mib);
  REQUIRE(reserved);
  lease.reset();
  *reserved = Reservation{};
  CHECK(live() <= 2);
}

TEST_CASE("a stream that is made while the only other one is captured disturbs no work that reads freed memory") {
  const auto context = open_lease(make_cuda_device());
  const Way reuse{"fake_cuda_reuse"};
  auto& stream = context->stream();
  auto read = *stream.tensor(DType::u8, {count});
  REQUIRE(stream.zero(read));
  const auto gate = close_gate();
  {
    auto gone = *stream.tensor(DType::u8, {count});
    REQUIRE(stream.fill_bytes(gone, 1));
    REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
    REQUIRE(stream.copy(read, gone));
  }
  auto again = *stream.tensor(DType::u8, {count});
  std::optional<Result<Stream>> side;
  const auto graph = stream.capture([&] {
    side = context->make_stream();
    REQUIRE(*side);
    REQUIRE((*side)->fill_bytes(again, 2));
    return stream.copy(read, read);
  });
  REQUIRE(graph);
  // One more, when nothing is captured any more.
  auto late = context->make_stream();
  REQUIRE(late);
  REQUIRE(late->fill_bytes(again, 3));
  open_gate();
  CHECK(*stream.to_host<std::uint8_t>(read) == std::vector<std::uint8_t>(count, 1));
}

TEST_CASE("where the driver cannot let a new stream wait, its maker waits") {
  const auto device = make_cuda_device();
  const Way reuse{"fake_cuda_reuse"};
  for (const char* refusing : {"cuEventRecord", "cuStreamWaitEvent"}) {
    const auto context = open_lease(device);
    auto& stream = context->stream();
    auto read = *stream.tensor(DType::u8, {count});
    const auto gate = close_gate();
    {
      auto gone = *stream.tensor(DType::u8, {count});
      REQUIRE(stream.fill_bytes(gone, 1));
      REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
      REQUIRE(stream.copy(read, gone));
    }
    auto again = *stream.tensor(DType::u8, {count});
    const Fault fault{refusing, invalid_handle};
    auto made = std::async(std::launch::async, [&] { return context->make_stream(); });
    CHECK(made.wait_for(std::chrono::milliseconds{20}) == std::future_status::timeout);
    open_gate();
    CHECK(made.get());
  }
}
