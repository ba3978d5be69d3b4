#include <gpuactors/actor/served_batch.hpp>
#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/discovery.hpp>

#include <support/catch.hpp>
#include <support/gate.hpp>

#include <algorithm>
#include <future>
#include <stdexcept>

using namespace gpuactors;

namespace {

struct Scene {
  std::shared_ptr<TensorStore> store = std::make_shared<TensorStore>();
  std::vector<std::shared_ptr<Device>> devices;

  Scene() {
    auto made = make_devices(*parse_device_specs("host:2x1MiB"), discovery_options("local"));
    REQUIRE(made.has_value());
    devices = std::move(*made);
  }

  [[nodiscard]] std::unique_ptr<Context> open(std::size_t device) const {
    // Also on other threads, where Catch has no assertions.
    return value_or_throw(Context::open(devices[device], {.holder = "test"}));
  }

  [[nodiscard]] Shared<Tensor> put(Context& context) const {
    auto tensor = context.stream().tensor_from(std::vector<float>{1, 2, 3, 4}, {2, 2});
    REQUIRE(tensor.has_value());
    auto shared = store->put(std::move(*tensor), context.stream());
    REQUIRE(shared.has_value());
    return std::move(*shared);
  }
};

/// What the kernel below waits for.
test::Gate& making() {
  static test::Gate gate;
  return gate;
}

struct Make {
  void operator()(std::uint64_t i, float* x) const {
    if (i == 0)
      making().pass();
    x[i] *= 10;
  }
};

struct BreakOff {
  void operator()(std::uint64_t, float*) const {
    throw std::runtime_error{"it breaks off"};
  }
};

// Host devices need no image.
constexpr KernelImage no_image{nullptr, nullptr};
const Kernel<float*> make{{"make", &detail::run_on_host<Make>, &no_image}};
const Kernel<float*> break_off{{"break_off", &detail::run_on_host<BreakOff>, &no_image}};

} // namespace

TEST_CASE("a tensor is kept while a handle to it lives, and found by its reference", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  v1::TensorRef ref;
  {
    const auto shared = scene.put(*owner);
    ref = shared.ref();
    CHECK(shared.shape() == std::vector<std::int64_t>{2, 2});
    const auto again = scene.store->get(ref);
    REQUIRE(again.has_value());
    const auto values = again->to_host<float>();
    REQUIRE(values.has_value());
    CHECK(*values == std::vector<float>{1, 2, 3, 4});
    CHECK(scene.store->size() == 1);
  }
  CHECK(scene.store->size() == 0);
  CHECK(owner->memory_used() == 0);
  CHECK(scene.store->get(ref).error().code() == Errc::not_found);
}

TEST_CASE("a reference that was handed over keeps the tensor until somebody gets it", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  const auto ref = scene.put(*owner).hand_over();
  CHECK(scene.store->size() == 1);
  { CHECK(scene.store->get(ref).has_value()); }
  CHECK(scene.store->size() == 0);
}

TEST_CASE("on its own device a tensor is shared, on another one it is copied", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  const auto other = scene.open(1);
  const auto shared = scene.put(*owner);
  const auto here = shared.on(owner->stream());
  const auto there = shared.on(other->stream());
  const auto view = shared.view();
  REQUIRE((here.has_value() && there.has_value() && view.has_value()));
  CHECK(here->raw() == view->raw());
  CHECK(there->raw() != view->raw());
  CHECK(other->memory_used() > 0);
}

TEST_CASE("a tensor may be put before it is made: who reads it waits, and sees what was made", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  auto& stream = owner->stream();
  auto tensor = stream.tensor_from(std::vector<float>{1, 2}, {2});
  REQUIRE(tensor.has_value());
  making().close();
  REQUIRE(stream.launch(make, 2, tensor->data<float>()));
  const auto shared = scene.store->put_queued(std::move(*tensor), stream);
  REQUIRE(shared.has_value());
  making().await(1);
  // Each of these waits, on a thread of its own.
  auto host = std::async(std::launch::async, [&] { return shared->to_host<float>(); });
  auto here = std::async(std::launch::async, [&] {
    const auto reader = scene.open(0);
    auto copy = shared->on(reader->stream());
    return copy.has_value() && *reader->stream().to_host<float>(*copy) == std::vector<float>{10, 20};
  });
  auto there = std::async(std::launch::async, [&] {
    const auto reader = scene.open(1);
    auto copy = shared->on(reader->stream());
    return copy.has_value() && *reader->stream().to_host<float>(*copy) == std::vector<float>{10, 20};
  });
  making().open();
  const auto values = host.get();
  REQUIRE(values.has_value());
  CHECK(*values == std::vector<float>{10, 20});
  CHECK(here.get());
  CHECK(there.get());
}

TEST_CASE("what queued work of a reader reads stays, although its handles and the owner's are gone", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  const auto reader = scene.open(0);
  auto& stream = reader->stream();
  auto result = stream.tensor_from(std::vector<float>(4, 0), {4});
  auto other = stream.tensor_from(std::vector<float>{1}, {1});
  REQUIRE((result.has_value() && other.has_value()));
  making().close();
  REQUIRE(stream.launch(make, 1, other->data<float>()));
  {
    const auto shared = scene.put(*owner);
    const auto x = shared.on(stream);
    REQUIRE(x.has_value());
    REQUIRE(stream.copy(result->raw(), x->raw(), x->bytes()));
  }
  CHECK(scene.store->size() == 0);
  // As large as the one that is read.
  const auto next = owner->stream().tensor_from(std::vector<float>{9, 9, 9, 9}, {2, 2});
  making().open();
  CHECK(*stream.to_host<float>(*result) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("an error of the work that makes a tensor is told to those who read it", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  auto& stream = owner->stream();
  auto tensor = stream.tensor_from(std::vector<float>{1, 2}, {2});
  REQUIRE(tensor.has_value());
  REQUIRE(stream.launch(break_off, 2, tensor->data<float>()));
  const auto shared = scene.store->put_queued(std::move(*tensor), stream);
  REQUIRE(shared.has_value());
  CHECK(shared->view().error().code() == Errc::launch_failed);
  CHECK(shared->on(stream).error().code() == Errc::launch_failed);
  CHECK(shared->to_host<float>().error().code() == Errc::launch_failed);
  CHECK(scene.store->put_queued(Tensor{}, stream).error().code() == Errc::invalid_argument);
}

TEST_CASE("a tensor that was put before it was made is lost with its owner, and keeps nothing of it", "[actor]") {
  Scene scene;
  auto owner = scene.open(0);
  auto tensor = owner->stream().tensor_from(std::vector<float>{1, 2}, {2});
  REQUIRE(tensor.has_value());
  const auto shared = scene.store->put_queued(std::move(*tensor), owner->stream());
  REQUIRE(shared.has_value());
  owner.reset();
  CHECK(shared->view().error().code() == Errc::actor_died);
  const auto reader = scene.open(0);
  CHECK(shared->on(reader->stream()).error().code() == Errc::actor_died);
}

TEST_CASE("the end of the owner loses the tensor for those who come later", "[actor]") {
  Scene scene;
  auto owner = scene.open(0);
  const auto shared = scene.put(*owner);
  owner.reset();
  CHECK(shared.view().error().code() == Errc::actor_died);
  CHECK(shared.to_host<float>().error().code() == Errc::actor_died);
}

TEST_CASE("a tensor of another process, or of another type, is refused", "[actor]") {
  Scene scene;
  const auto owner = scene.open(0);
  const auto shared = scene.put(*owner);
  CHECK(std::make_shared<TensorStore>()->get(shared.ref()).error().code() == Errc::not_found);
  CHECK(shared.to_host<double>().error().code() == Errc::invalid_argument);
}

TEST_CASE("a draft is filled in place, and shared without a copy", "[actor]") {
  Scene scene;
  auto draft = scene.store->draft(DType::f32, {2, 2});
  REQUIRE(draft.has_value());
  CHECK(draft->bytes().size() == 4 * sizeof(float));
  CHECK(draft->shape() == std::vector<std::int64_t>{2, 2});
  const auto other = draft->values<double>();
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().code() == Errc::invalid_argument);
  CHECK(other.error().message() == "the tensor holds f32, not f64");
  const auto values = draft->values<float>();
  REQUIRE(values.has_value());
  REQUIRE(values->size() == 4);
  std::copy_n(std::vector<float>{1, 2, 3, 4}.begin(), 4, values->begin());
  const auto* where = values->data();
  const auto shared = std::move(*draft).share();
  CHECK(scene.store->size() == 1);
  const auto read = scene.store->get(shared.ref())->host<float>();
  REQUIRE(read.has_value());
  CHECK(read->data() == where);
  CHECK((*read)[3] == 4);
  CHECK_FALSE(scene.store->draft(DType::f32, {-1}).has_value());
  const auto empty = scene.store->draft(DType::u8, {0});
  REQUIRE(empty.has_value());
}

TEST_CASE("a draft that is given up leaves nothing in the store", "[actor]") {
  Scene scene;
  {
    auto draft = scene.store->draft(DType::u8, {1 << 20});
    REQUIRE(draft.has_value());
    CHECK(scene.store->size() == 0);
  }
  CHECK(scene.store->size() == 0);
}

TEST_CASE("outputs of a batch are in its reply as long as they are small, and tensors that are handed over above that",
          "[actor]") {
  Scene scene;
  auto small = ServedOutputs::make({3, 0}, *scene.store);
  REQUIRE(small.has_value());
  std::fill((*small)[0].begin(), (*small)[0].end(), std::byte{'a'});
  const auto message = std::move(*small).finish();
  REQUIRE(message.outputs_size() == 2);
  CHECK(message.outputs(0) == "aaa");
  CHECK(message.output_tensors().empty());
  auto large = ServedOutputs::make({limits::served_message_bytes, 1}, *scene.store);
  REQUIRE(large.has_value());
  std::fill((*large)[0].begin(), (*large)[0].end(), std::byte{'b'});
  (*large)[1][0] = std::byte{'c'};
  const auto reply = std::move(*large).finish();
  CHECK(reply.outputs().empty());
  REQUIRE(reply.output_tensors_size() == 2);
  CHECK(scene.store->size() == 2);
  // A batch has them in the same form.
  v1::ReplicaBatch batch;
  *batch.mutable_input_tensors() = reply.output_tensors();
  {
    const auto inputs = ServedInputs::of(batch, *scene.store);
    REQUIRE(inputs.has_value());
    REQUIRE(inputs->size() == 2);
    CHECK((*inputs)[0].size() == limits::served_message_bytes);
    CHECK((*inputs)[0].back() == std::byte{'b'});
    CHECK((*inputs)[1].front() == std::byte{'c'});
  }
  CHECK(scene.store->size() == 0);
  // Nothing that would be taken for the end of the replica.
  CHECK(ServedInputs::of(batch, *scene.store).error().code() == Errc::task_failed);
}
