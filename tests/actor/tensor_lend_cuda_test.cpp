// Tensors on a GPU that other processes of the machine open where they lie: stores of two processes, here both in one,
// on the fake driver.
#include <gpuactors/actor/tensor_store.hpp>

#include <support/eventually.hpp>
#include <support/results.hpp>

#include <device/fake_driver.hpp>

#include <chrono>
#include <numeric>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t count = (1 << 20) / sizeof(float); // as little as is lent
constexpr std::uint64_t unit = std::uint64_t{2} << 20;

int imports() {
  return from_fake<int()>("fake_cuda_imports")();
}

TensorLinks links() {
  TensorLinks result;
  result.listening.host = "127.0.0.1";
  return result;
}

std::vector<float> counting() {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

/// A process: its device, what one actor of it holds there, and its tensors.
struct Side {
  std::shared_ptr<Device> device = make_cuda_device();
  std::unique_ptr<Context> context;
  std::shared_ptr<TensorStore> store = std::make_shared<TensorStore>(links());

  explicit Side(std::uint64_t memory = 8 * unit, Share share = Share{5000})
    : context(must(Context::open(device, {share, memory, "actor", nullptr}))) {
    store->use_devices({device});
  }

  Stream& stream() {
    return context->stream();
  }

  Shared<Tensor> put() {
    return must(store->put(must(stream().tensor_from(counting(), {count})), stream()));
  }
};

} // namespace

TEST_CASE("a tensor of another process is opened on its device, and its bytes lie there once") {
  Side owner;
  Side reader;
  const auto before = imports();
  const auto shared = owner.put();
  CHECK(shared.ref().device() == owner.device->info().uuid);
  const auto got = must(reader.store->get(shared.ref()));
  CHECK(imports() == before + 1);
  CHECK(got.shape() == shared.shape());
  // It has moved into memory that can be shared; nobody has a second copy.
  CHECK(owner.context->memory_used() == unit);
  CHECK(reader.context->memory_used() == 0);
  {
    const auto tensor = must(got.on(reader.stream()));
    CHECK(reader.context->memory_used() == unit);
    CHECK(must(reader.stream().to_host<float>(tensor)) == counting());
    const auto again = must(got.on(reader.stream()));
    CHECK(again.raw() == tensor.raw());
  }
  // To the host it comes by itself, if somebody wants it there.
  const auto span = must(got.host<float>());
  CHECK(std::vector<float>(span.begin(), span.end()) == counting());
  CHECK(must(got.to_host<float>()) == counting());
  CHECK(got.view().error().code() == Errc::unsupported);
  // Its owner reads it where it lies now.
  CHECK(must(owner.stream().to_host<float>(must(shared.on(owner.stream())))) == counting());
  CHECK(must(reader.store->get(shared.ref())).ref().id() == got.ref().id());
  CHECK(imports() == before + 1);
}

TEST_CASE("a tensor is read without a part of the compute, which to set up would wait for all kernels") {
  Side owner{8 * unit, Share::whole(1)};
  const auto greens = from_fake<int()>("fake_cuda_greens");
  const auto before = greens();
  const auto shared = owner.put();
  CHECK(must(shared.to_host<float>()) == counting());
  Side reader{8 * unit, Share::whole(1)};
  const auto got = must(reader.store->get(shared.ref()));
  CHECK(must(got.to_host<float>()) == counting());
  CHECK(greens() == before);
}

TEST_CASE("who has a tensor open keeps it in its owner's quota, and whoever lets go last gives it back") {
  Side owner;
  Side reader;
  auto shared = owner.put();
  auto got = must(reader.store->get(std::move(shared).hand_over()));
  auto tensor = must(got.on(reader.stream()));
  CHECK(eventually([&] { return owner.store->size() == 1; }));
  CHECK(owner.context->memory_used() == unit);
  got = {};
  // What is read keeps it, too.
  CHECK(owner.store->size() == 1);
  CHECK(must(reader.stream().to_host<float>(tensor)) == counting());
  tensor = Tensor{};
  CHECK(eventually([&] { return owner.store->size() == 0; }));
  CHECK(eventually([&] { return owner.context->memory_used() == 0; }));
  CHECK(eventually([&] { return reader.context->memory_used() == 0; }));
}

TEST_CASE("a tensor that is lent is lost when its owner ends, but for what is being read") {
  Side owner;
  Side reader;
  const auto shared = owner.put();
  const auto got = must(reader.store->get(shared.ref()));
  const auto tensor = must(got.on(reader.stream()));
  // Who served it has let go of it when the same connection has served something else.
  const float one = 1;
  const auto small = must(owner.store->put_copy(&one, 1, DType::f32, {1}));
  must(reader.store->get(small.ref()));
  const auto quota = owner.context->quota();
  owner.context.reset();
  CHECK(quota->used() == 0);
  CHECK(eventually([&] { return !got.on(reader.stream()); }));
  CHECK(got.on(reader.stream()).error().code() == Errc::actor_died);
  CHECK(got.to_host<float>().error().code() == Errc::actor_died);
  CHECK(must(reader.stream().to_host<float>(tensor)) == counting());
  CHECK(eventually([&] { return reader.context->memory_used() == unit; }));
}

TEST_CASE("a tensor that is lent is lost when the process of its owner ends") {
  Side owner;
  Side reader;
  const auto shared = owner.put();
  const auto got = must(reader.store->get(shared.ref()));
  owner.store->close();
  CHECK(eventually([&] { return !got.on(reader.stream()); }));
}

TEST_CASE("what a process has borrowed stays readable when its own store is closed") {
  Side owner;
  Side reader;
  const auto shared = owner.put();
  const auto got = must(reader.store->get(shared.ref()));
  reader.store->close();
  CHECK(must(reader.stream().to_host<float>(must(got.on(reader.stream())))) == counting());
}

TEST_CASE("several processes read one copy") {
  Side owner;
  Side first;
  Side second;
  const auto shared = owner.put();
  const auto one = must(first.store->get(shared.ref()));
  const auto other = must(second.store->get(shared.ref()));
  CHECK(owner.context->memory_used() == unit);
  CHECK(must(first.stream().to_host<float>(must(one.on(first.stream())))) == counting());
  CHECK(must(second.stream().to_host<float>(must(other.on(second.stream())))) == counting());
}

TEST_CASE("what is borrowed is passed on through the host, and needs its owner no more then") {
  Side owner;
  Side reader;
  Side third;
  auto shared = owner.put();
  auto got = must(reader.store->get(std::move(shared).hand_over()));
  CHECK(got.ref().device().empty());
  const auto before = imports();
  const auto passed = must(third.store->get(got.ref()));
  CHECK(imports() == before);
  got = {};
  owner.context.reset();
  CHECK(must(passed.to_host<float>()) == counting());
  CHECK(must(third.stream().to_host<float>(must(passed.on(third.stream())))) == counting());
}

TEST_CASE("where a tensor cannot be opened on a device it comes through the host") {
  const auto fail = from_fake<void(const char*, int)>("fake_cuda_fail");
  Side owner{2 * unit};
  Side reader;
  SECTION("the reader's device cannot reach the owner's") {
    const auto shared = owner.put();
    fail("cuMemImportFromShareableHandle", 101);
    const auto got = must(reader.store->get(shared.ref()));
    fail("cuMemImportFromShareableHandle", 0);
    CHECK(must(got.to_host<float>()) == counting());
    CHECK(must(reader.stream().to_host<float>(must(got.on(reader.stream())))) == counting());
  }
  SECTION("the owner has no room for a copy that can be shared") {
    const auto shared = owner.put();
    const auto rest = must(owner.stream().allocate(unit));
    const auto got = must(reader.store->get(shared.ref()));
    CHECK(must(got.to_host<float>()) == counting());
    CHECK(owner.context->memory_used() == unit + static_cast<std::uint64_t>(count) * sizeof(float));
  }
  SECTION("the reader has no device") {
    TensorStore client{links()};
    const auto before = imports();
    const auto shared = owner.put();
    CHECK(must(must(client.get(shared.ref())).to_host<float>()) == counting());
    CHECK(imports() == before);
  }
  SECTION("it is small") {
    const auto shared =
        must(owner.store->put(must(owner.stream().tensor_from(std::vector<float>{1}, {1})), owner.stream()));
    CHECK(shared.ref().device().empty());
    CHECK(must(must(reader.store->get(shared.ref())).to_host<float>()) == std::vector<float>{1});
  }
}

TEST_CASE("what is borrowed can be put as one's own, and is lent as a copy then") {
  Side owner;
  Side reader;
  Side third;
  const auto shared = owner.put();
  const auto got = must(reader.store->get(shared.ref()));
  const auto put = must(reader.store->put(must(got.on(reader.stream())), reader.stream()));
  const auto passed = must(third.store->get(put.ref()));
  CHECK(must(third.stream().to_host<float>(must(passed.on(third.stream())))) == counting());
  CHECK(passed.ref().device().empty());
}

TEST_CASE("a tensor in the making is lent when it is made") {
  Side owner;
  Side reader;
  auto& stream = owner.stream();
  const auto shared = must(owner.store->put_queued(must(stream.tensor_from(counting(), {count})), stream));
  const auto got = must(reader.store->get(shared.ref()));
  CHECK(must(reader.stream().to_host<float>(must(got.on(reader.stream())))) == counting());
}

TEST_CASE("a reader without room is told so, and the tensor is still lent") {
  Side owner;
  Side reader{unit};
  const auto shared = owner.put();
  const auto got = must(reader.store->get(shared.ref()));
  auto taken = must(reader.stream().allocate(512));
  CHECK(got.on(reader.stream()).error().code() == Errc::out_of_memory);
  taken = Buffer{};
  CHECK(must(reader.stream().to_host<float>(must(got.on(reader.stream())))) == counting());
}

TEST_CASE("devices of one process take tensors from each other without the host") {
  Side owner;
  const auto module = must(load_cuda_module());
  const auto devices = must(module->devices());
  REQUIRE(devices.size() == 2);
  const auto other = must(module->device(devices[1]));
  const auto context = must(Context::open(other, {Share{5000}, 8 * unit, "neighbour", nullptr}));
  const auto shared = owner.put();
  CHECK(must(context->stream().to_host<float>(must(shared.on(context->stream())))) == counting());
  CHECK(from_fake<int()>("fake_cuda_peer_copies")() == 1);
}
