#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/device/discovery.hpp>

#include <support/catch.hpp>

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
    auto context = Context::open(devices[device], {.holder = "test"});
    REQUIRE(context.has_value());
    return std::move(*context);
  }

  [[nodiscard]] Shared<Tensor> put(Context& context) const {
    auto tensor = context.stream().tensor_from(std::vector<float>{1, 2, 3, 4}, {2, 2});
    REQUIRE(tensor.has_value());
    auto shared = store->put(std::move(*tensor), context.stream());
    REQUIRE(shared.has_value());
    return std::move(*shared);
  }
};

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
