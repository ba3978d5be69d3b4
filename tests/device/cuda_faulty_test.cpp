// A device that fails on command, in front of CUDA on the fake driver: without faults nobody notices it, and with them
// nothing is left behind.
#include <gpuactors/device/context.hpp>
#include <gpuactors/device/faulty.hpp>

#include <support/results.hpp>

#include <device/fake_driver.hpp>

#include <future>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using faulty::Call;

namespace {

constexpr std::uint64_t shared_unit = std::uint64_t{2} << 20;

struct Bench {
  std::shared_ptr<faulty::Plan> plan = std::make_shared<faulty::Plan>();
  std::shared_ptr<Device> cuda = make_cuda_device();
  std::shared_ptr<Device> device = std::make_shared<faulty::FaultyDevice>(cuda, plan);

  [[nodiscard]] std::unique_ptr<Context> open(std::uint64_t memory = 8 * shared_unit) const {
    return must(Context::open(device, {Share{5000}, memory, "test", nullptr}));
  }
};

/// Lends a tensor of one context to another one, and reads it there.
Result<std::vector<float>> lend(Bench& bench, Context& owner, Context& reader) {
  GPUACTORS_LET(tensor, owner.stream().tensor_from(std::vector<float>{1, 2, 3}));
  GPUACTORS_LET(lent, tensor.shareable(owner.stream(), {}));
  GPUACTORS_LET(opened, bench.device->open_shared_memory(lent.shared_memory()->descriptor(), lent.bytes()));
  GPUACTORS_LET(read, reader.stream().attach(std::move(opened), DType::f32, {3}));
  return reader.stream().to_host<float>(read);
}

} // namespace

TEST_CASE("behind a device that fails on command CUDA lends memory, and gets it back") {
  {
    Bench bench;
    CHECK_FALSE(bench.device->is_open());
    {
      const auto owner = bench.open();
      const auto reader = bench.open();
      CHECK(bench.device->is_open());
      CHECK(must(lend(bench, *owner, *reader)) == std::vector<float>{1, 2, 3});
      CHECK(bench.plan->calls(Call::attach) == 2);
      // Room for it again at once: what was let go of is waited for.
      CHECK(must(reader->stream().allocate(8 * shared_unit)));
    }
    CHECK(bench.plan->held() == faulty::Held{});
  }
  CHECK(live() == 0);
}

TEST_CASE("devices of one process copy to each other without the host, whichever of them fails on command") {
  const Bench here;
  const Bench there;
  const auto copies = from_fake<int()>("fake_cuda_peer_copies");
  for (const auto& source : {there.cuda, there.device})
    for (const auto& target : {here.cuda, here.device}) {
      const auto before = copies();
      const auto from = must(Context::open(source, {Share{5000}, 8 * shared_unit, "source", nullptr}));
      const auto to = must(Context::open(target, {Share{5000}, 8 * shared_unit, "target", nullptr}));
      const auto tensor = must(from->stream().tensor_from(std::vector<float>{1, 2, 3}));
      auto copy = must(to->stream().tensor(DType::f32, {3}));
      must(to->stream().copy_from(*source, copy.raw(), tensor.raw(), tensor.bytes()));
      CHECK(must(to->stream().to_host<float>(copy)) == std::vector<float>{1, 2, 3});
      CHECK(copies() == before + 1);
    }
}

TEST_CASE("what takes long to destroy ends on another thread, also behind a device that fails on command") {
  const Bench bench;
  std::promise<std::thread::id> ended;
  bench.device->dispose(std::shared_ptr<void>{nullptr, [&](void*) { ended.set_value(std::this_thread::get_id()); }});
  CHECK(ended.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("memory that cannot be lent, opened or attached leaves nothing behind") {
  {
    Bench bench;
    const auto owner = bench.open();
    const auto reader = bench.open();
    for (const auto call :
         {Call::attach, Call::shared_footprint, Call::make_shared_memory, Call::open_shared_memory, Call::copy})
      for (const std::uint64_t n : {1, 2}) {
        INFO(to_string(call) << " number " << n);
        bench.plan->reset();
        bench.plan->fail_at(call, n, Error{Errc::out_of_memory, "injected"});
        const auto read = lend(bench, *owner, *reader);
        CHECK(bench.plan->calls(call) > 0);
        if (bench.plan->calls(call) < n)
          CHECK(read);
        else
          CHECK(read.error() == Error{Errc::out_of_memory, "injected"});
        CHECK(bench.plan->held().attachments == 0);
        CHECK(bench.plan->held().allocations == 0);
      }
    CHECK(must(owner->stream().allocate(8 * shared_unit)));
    CHECK(must(reader->stream().allocate(8 * shared_unit)));
  }
  CHECK(live() == 0);
}

TEST_CASE("kernels from source and streams for libraries can be refused on command") {
  const Bench bench;
  const auto context = bench.open();
  bench.plan->fail_at(Call::make_current, 1, Error{Errc::unsupported, "injected"});
  bench.plan->fail_at(Call::compile, 1, Error{Errc::unsupported, "injected"});
  bench.plan->fail_at(Call::host_memory, 1, Error{Errc::out_of_memory, "injected"});
  CHECK(says(context->stream().native(), "injected"));
  CHECK(says(context->compile({"source", "name"}), "injected"));
  CHECK(says(context->host_buffer(100), "injected"));
  CHECK(context->stream().native());
  CHECK(context->host_buffer(100));
}
