// Fractions of a CUDA device on the fake driver: whose work runs on which SMs, and what happens where that is not to be
// had.
#include <gpuactors/device/context.hpp>

#include <device/fake_driver.hpp>

#include <cstdlib>
#include <future>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

constexpr auto test_memory = std::uint64_t{64} << 20;

std::unique_ptr<Context> open(const std::shared_ptr<Device>& device, Share share) {
  auto context = Context::open(device, {share, test_memory, "test", nullptr});
  if (!context)
    FAIL(context.error().message());
  return std::move(*context);
}

unsigned last_groups() {
  return from_fake<unsigned()>("fake_cuda_last_groups")();
}

/// A fill, copies and a product on a stream.
void do_work(Stream& stream) {
  auto a = stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8});
  auto b = stream.tensor(DType::f32, {8, 8});
  REQUIRE(b);
  REQUIRE(stream.fill_bytes(b->raw(), 0, 256));
  REQUIRE(stream.gemm(*a, *a, *b));
  CHECK((*stream.to_host<float>(*b))[0] == 8.0F);
}

} // namespace

TEST_CASE("a fraction is a set of SM groups, and the grant says which") {
  const auto device = make_cuda_device();
  const auto half = open(device, Share{5000});
  const auto grant = half->granted();
  CHECK(grant.compute == ComputeEnforcement::sm_groups);
  CHECK(grant.groups == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(grant.group_count == 16);
  CHECK(grant.units == 64);
  CHECK_FALSE(grant.shared);
  CHECK(to_string(grant) == "8 of 16 SM groups (64 SMs)");
  const auto tenth = open(device, Share{1000});
  CHECK(tenth->granted().groups == std::vector<int>{8, 9});
  CHECK(tenth->granted().units == 16);
}

TEST_CASE("all work of a fraction runs on its own groups, and none in the primary context") {
  const auto device = make_cuda_device();
  (void)take_work(false);
  (void)take_work(true);
  std::set<unsigned> seen;
  std::vector<std::unique_ptr<Context>> quarters;
  for (int i = 0; i < 4; ++i) {
    quarters.push_back(open(device, Share{2500}));
    do_work(quarters.back()->stream());
    CHECK(last_groups() == 0xFU << (4 * i));
    auto side = quarters.back()->make_stream();
    REQUIRE(side);
    do_work(*side);
    CHECK(last_groups() == 0xFU << (4 * i));
  }
  CHECK(take_work(true) == 8 * 4);
  CHECK(take_work(false) == 0);
}

TEST_CASE("who has the same groups shares a green context, which stays for the next") {
  const auto greens = [] { return from_fake<int()>("fake_cuda_greens")(); };
  const auto device = make_cuda_device();
  {
    std::vector<std::unique_ptr<Context>> many;
    for (int i = 0; i < 16; ++i)
      many.push_back(open(device, Share{Share::one / 64}));
    CHECK(greens() == 4);
    for (auto& context : many)
      do_work(context->stream());
    // The first of a group goes; the others work on, and may have further streams.
    many.erase(many.begin());
    auto side = many.front()->make_stream();
    REQUIRE(side);
    do_work(*side);
    CHECK(greens() == 4);
  }
  // The driver waits for all that runs to make one, and keeps memory of each that ends.
  CHECK(greens() == 4);
  do_work(open(device, Share{Share::one / 64})->stream());
  CHECK(greens() == 4);
  do_work(open(device, Share{2500})->stream());
  CHECK(greens() == 5);
}

TEST_CASE("green contexts of groups that nobody has any more do not pile up, and end with their device") {
  const auto greens = [] { return from_fake<int()>("fake_cuda_greens")(); };
  const auto before = live();
  {
    const auto device = make_cuda_device();
    // One group after the other is taken, and then all runs of groups that begin behind them.
    std::vector<std::unique_ptr<Context>> taken;
    for (int first = 0; first < 15; ++first) {
      for (int length = 1; length <= 16 - first; ++length)
        do_work(open(device, Share{Share::one * length / 16})->stream());
      taken.push_back(open(device, Share{Share::one / 16}));
    }
    CHECK(greens() > 16);
    CHECK(greens() <= 64);
    do_work(taken.back()->stream());
  }
  CHECK(greens() == 0);
  CHECK(live() == before);
}

TEST_CASE("where the driver makes no more green contexts, those that nobody has make room") {
  const auto limit = from_fake<void(int)>("fake_cuda_limit_greens");
  const auto device = make_cuda_device();
  limit(2);
  do_work(open(device, Share{Share::one / 2})->stream());
  const auto quarter = open(device, Share{2500});
  const auto other = open(device, Share{2500});
  CHECK(from_fake<int()>("fake_cuda_greens")() == 2);
  do_work(other->stream());
  CHECK(Context::open(device, {Share{2500}, test_memory, "test", nullptr}).error().code() == Errc::out_of_memory);
  limit(0);
  do_work(open(device, Share{2500})->stream());
}

TEST_CASE("what only copies takes no groups, and works beside a whole device") {
  const auto device = make_cuda_device();
  const auto greens = from_fake<int()>("fake_cuda_greens");
  const auto before = greens();
  ContextOptions options;
  options.share = Share{1};
  options.memory_bytes = std::uint64_t{64} << 20;
  options.copies_only = true;
  const auto context = Context::open(device, options);
  REQUIRE(context);
  CHECK((*context)->granted().compute == ComputeEnforcement::unenforced);
  CHECK((*context)->granted().reason == "it only copies");
  auto x = (*context)->stream().tensor_from(std::vector<float>{1, 2, 3});
  REQUIRE(x);
  CHECK(*(*context)->stream().to_host<float>(*x) == std::vector<float>{1, 2, 3});
  CHECK(greens() == before);
}

TEST_CASE("cuBLAS is told the SMs of a fraction for products that are faster so, and of a whole device never") {
  const auto told = from_fake<int()>("fake_cublas_last_target");
  const auto device = make_cuda_device();
  const auto half = open(device, Share{Share::one / 2});
  const auto whole = open(device, Share::whole(1));
  const auto multiply = [](Context& context, DType dtype, std::int64_t rows) {
    auto& stream = context.stream();
    const auto a = *stream.tensor(dtype, {rows, 64});
    const auto b = *stream.tensor(dtype, {64, 64});
    auto c = *stream.tensor(dtype, {rows, 64});
    for (const auto* tensor : {&a, &b})
      REQUIRE(stream.fill_bytes(tensor->raw(), 0, tensor->bytes()));
    REQUIRE(stream.gemm(a, b, c));
    REQUIRE(stream.synchronize());
  };
  multiply(*half, DType::bf16, 64);
  CHECK(told() == 64);
  multiply(*half, DType::f32, 64);
  CHECK(told() == 0);
  multiply(*half, DType::f32, 8);
  CHECK(told() == 64);
  multiply(*whole, DType::bf16, 8);
  CHECK(told() == 0);
}

TEST_CASE("SMs that fit in no group go with the last one, where the driver takes them so") {
  const auto fail_with = from_fake<void(const char*, int)>("fake_cuda_fail");
  for (const bool taken : {true, false}) {
    const auto device = make_cuda_device();
    // CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
    fail_with("the rest of a split", taken ? 0 : 915);
    const auto half = open(device, Share{Share::one / 2});
    const auto other = open(device, Share{Share::one / 2});
    fail_with("the rest of a split", 0);
    CHECK(half->granted().units == 64);
    CHECK(other->granted().units == (taken ? 68 : 64));
    CHECK(other->granted().groups.size() == 8);
    do_work(other->stream());
    CHECK(last_groups() == 0xFF00);
  }
}

TEST_CASE("a fraction works also where events must be of the green context whose streams record them") {
  (void)make_cuda_device();
  const auto keep_home = from_fake<void(int)>("fake_cuda_keep_events_home");
  const auto before = live();
  // CUDA_ERROR_INVALID_CONTEXT too: nothing says by which error a driver refuses.
  for (const auto refusal : {invalid_handle, 201}) {
    INFO(refusal);
    keep_home(refusal);
    const auto device = make_cuda_device();
    std::vector<std::unique_ptr<Context>> quarters;
    for (int i = 0; i < 4; ++i)
      quarters.push_back(open(device, Share{2500}));
    const auto whole = open(device, Share::whole(1));
    do_work(whole->stream());
    for (auto& quarter : quarters) {
      auto side = quarter->make_stream();
      REQUIRE(side);
      do_work(quarter->stream());
      do_work(*side);
      // Across streams, across contexts, and back to the program.
      auto mark = side->mark();
      REQUIRE(mark);
      CHECK(quarter->stream().wait(*mark));
      CHECK(whole->stream().wait(*mark));
      std::promise<bool> told;
      REQUIRE(side->notify([&](const Result<void>& done) { told.set_value(done.has_value()); }));
      CHECK(told.get_future().get());
    }
  }
  keep_home(0);
  CHECK(live() == before);
}

TEST_CASE("where streams of green contexts take no events at all, fractions are shared as they come") {
  const auto device = make_cuda_device();
  std::unique_ptr<Context> half;
  {
    const Fault fault{"cuEventRecord", 201};
    half = open(device, Share{5000});
  }
  CHECK(to_string(half->granted())
        == "unenforced (an event for a stream of a green context: CUDA_ERROR_OTHER (201) on device 0)");
  CHECK(half->granted().units == 132);
  do_work(half->stream());
}

TEST_CASE("a fraction is refused where the context is lost when its events are tried") {
  {
    const auto device = make_cuda_device();
    const Fault fault{"cuEventRecord", 700};
    const auto refused = Context::open(device, {Share{5000}, test_memory, "test", nullptr});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::context_lost);
  }
  CHECK(live() == 0);
}

TEST_CASE("memory is not freed under work although the driver refuses to order the two") {
  const auto device = make_cuda_device();
  const auto context = open(device, Share{5000});
  auto side = context->make_stream();
  REQUIRE(side);
  for (const auto* function : {"cuEventRecord", "cuStreamWaitEvent"}) {
    INFO(function);
    constexpr std::int64_t values = 1 << 20;
    auto x = side->tensor_from(std::vector<float>(values, 7.0F), {values});
    auto y = side->tensor(DType::f32, {values});
    REQUIRE(x);
    REQUIRE(y);
    REQUIRE(side->synchronize());
    for (int i = 0; i < 200; ++i)
      REQUIRE(side->copy(*y, *x));
    {
      const Fault fault{function, invalid_handle};
      auto gone = std::move(*x);
    }
    CHECK((*side->to_host<float>(*y))[0] == 7.0F);
  }
}

TEST_CASE("where there is no memory for cuBLAS, a product says so, and works when there is some") {
  const auto context = open(make_cuda_device(), Share{5000});
  auto& stream = context->stream();
  auto a = *stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8});
  auto b = *stream.tensor(DType::f32, {8, 8});
  {
    const Fault fault{"cublasCreate", 1}; // CUBLAS_STATUS_NOT_INITIALIZED
    const auto refused = stream.gemm(a, a, b);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::out_of_memory);
  }
  CHECK(stream.gemm(a, a, b));
  CHECK((*stream.to_host<float>(b))[0] == 8.0F);
}

TEST_CASE("a whole device runs on all of it") {
  const auto device = make_cuda_device();
  const auto whole = open(device, Share::whole(1));
  (void)take_work(true);
  do_work(whole->stream());
  CHECK(take_work(true) == 0);
  CHECK(whole->granted().compute == ComputeEnforcement::exclusive);
  CHECK(whole->granted().units == 132);
  CHECK(whole->granted().groups.empty());
}

TEST_CASE("a device is split once for all that open it in the process") {
  const auto splits = from_fake<int()>("fake_cuda_splits");
  const auto first = make_cuda_device();
  const auto second = make_cuda_device();
  const auto before = splits();
  const auto a = open(first, Share{5000});
  const auto b = open(second, Share{5000});
  CHECK(splits() == before + 1);
  CHECK(a->granted().groups.front() == 0);
  CHECK(b->granted().groups.front() == 8);
}

TEST_CASE("groups are back when a context ends, and sharing is said as long as it lasts") {
  const auto device = make_cuda_device();
  const auto half = open(device, Share{5000});
  auto other = open(device, Share{5000});
  CHECK_FALSE(half->granted().shared);
  // A child that runs inside somebody's lease.
  auto child = open(device, Share{2500});
  CHECK(child->granted().shared);
  CHECK(half->granted().shared);
  CHECK(to_string(child->granted()) == "4 of 16 SM groups (32 SMs), shared");
  child.reset();
  CHECK_FALSE(half->granted().shared);
  other.reset();
  other = open(device, Share{2500});
  CHECK(other->granted().groups == std::vector<int>{8, 9, 10, 11});
}

TEST_CASE("a chip without green contexts is shared as it comes, and the grant says why") {
  struct Row {
    const char* api;
    int result;
    const char* reason;
  };
  for (const auto& row :
       {Row{"cuDeviceGetDevResource", 801, "cuDeviceGetDevResource: CUDA_ERROR_OTHER (801)"},
        Row{"cuDevSmResourceSplitByCount", 915, "cuDevSmResourceSplitByCount: CUDA_ERROR_OTHER (915)"},
        Row{"cuGreenCtxCreate", 801, "cuGreenCtxCreate: CUDA_ERROR_OTHER (801)"}}) {
    const Fault fault{row.api, row.result};
    const auto device = make_cuda_device();
    const auto half = open(device, Share{5000});
    const auto grant = half->granted();
    CHECK(grant.compute == ComputeEnforcement::unenforced);
    CHECK(grant.units == 132);
    CHECK(grant.groups.empty());
    CHECK(grant.reason.find(row.reason) == 0);
    do_work(half->stream());
  }
  CHECK(live() == 0);
}

TEST_CASE("a green context that cannot be made now is an error of who asked, and leaves nothing behind") {
  const auto device = make_cuda_device();
  {
    const Fault fault{"cuGreenCtxCreate", 2};
    const auto refused = Context::open(device, {Share{5000}, test_memory, "test", nullptr});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::out_of_memory);
  }
  for (const auto* api : {"cuDevResourceGenerateDesc", "cuGreenCtxGetDevResource", "cuGreenCtxStreamCreate"}) {
    const Fault fault{api, 999};
    CHECK_FALSE(Context::open(make_cuda_device(), {Share{5000}, test_memory, "test", nullptr}));
  }
  const auto half = open(device, Share{5000});
  CHECK(half->granted().groups.front() == 0);
  do_work(half->stream());
}

TEST_CASE("a driver without green contexts runs the same program", "[.][no_green]") {
  const auto half = open(make_cuda_device(), Share{5000});
  do_work(half->stream());
  CHECK(to_string(half->granted())
        == "unenforced (the CUDA driver has no cuGreenCtxStreamCreate: CUDA 12.5 or later is needed)");
}

TEST_CASE("under MPS with a percentage a process is capped, and does not claim SMs of its own", "[.][mps]") {
  const auto device = make_cuda_device();
  for (const auto share : {Share{5000}, Share::whole(1)}) {
    const auto context = open(device, share);
    do_work(context->stream());
    CHECK(context->granted().units == 33);
    CHECK(to_string(context->granted()) == "capped (MPS gives this process 25 % of the SMs, whichever they are)");
  }
}

TEST_CASE("in a process of its own a fraction takes turns, a whole device is exclusive", "[.][isolated]") {
  const auto device = make_cuda_device();
  const auto half = open(device, Share{5000});
  do_work(half->stream());
  CHECK(half->granted().units == 132);
  CHECK(to_string(half->granted()) == "time-sliced (a process of its own)");
  CHECK(to_string(open(device, Share::whole(1))->granted()) == "exclusive");
}

TEST_CASE("under MPS without a percentage green contexts hold", "[.][mps_whole]") {
  CHECK(open(make_cuda_device(), Share{5000})->granted().compute == ComputeEnforcement::sm_groups);
}
