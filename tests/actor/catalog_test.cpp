#include <gpuactors/actor/catalog.hpp>
#include <gpuactors/test/messages.pb.h>
#include <gpuactors/wire/message_types.hpp>

#include <support/catch.hpp>

#include <set>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

class Greeter : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Text greet(const Text& in) {
    return in;
  }

  void greet_often(const Number& /*in*/, ReplyStream<Text>& /*out*/) {
    // nop
  }
};

} // namespace

TEST_CASE("a catalog has tasks, actors and methods with their messages and needs", "[actor]") {
  TypeRegistry registry;
  define_task(
      "echo", [](TaskContext&, const Text& in) { return in; }, registry)
      .needs({.gpus = 0.5, .cpus = 1});
  define_actor<Greeter, Number>("greeter", registry)
      .method("greet", &Greeter::greet)
      .method("often", &Greeter::greet_often)
      .needs({.memory_bytes = 64});
  const auto catalog = describe_types(registry);
  CHECK(check_catalog(catalog).has_value());
  REQUIRE(catalog.tasks_size() == 1);
  const auto& task = catalog.tasks(0);
  CHECK(task.name() == "echo");
  CHECK(task.input() == Text::descriptor()->full_name());
  CHECK(task.output() == Text::descriptor()->full_name());
  CHECK_FALSE(task.streamed());
  CHECK(task.needs().gpus() == 0.5);
  CHECK(task.needs().cpus() == 1);
  REQUIRE(catalog.actors_size() == 1);
  const auto& actor = catalog.actors(0);
  CHECK(actor.name() == "greeter");
  CHECK(actor.config() == Number::descriptor()->full_name());
  CHECK(ownership_of(actor) == Ownership::fraction);
  CHECK(actor.needs().memory_bytes() == 64);
  REQUIRE(actor.methods_size() == 2);
  CHECK(actor.methods(0).name() == "greet");
  CHECK(actor.methods(1).streamed());
  CHECK(actor.methods(1).output() == Text::descriptor()->full_name());
}

TEST_CASE("a catalog describes all messages that it names, each file once", "[actor]") {
  TypeRegistry registry;
  define_task(
      "one", [](TaskContext&, const Text& in) { return in; }, registry);
  define_task(
      "two", [](TaskContext&, const Number& in) { return in; }, registry);
  define_task(
      "nothing", [](TaskContext&, const google::protobuf::Empty&) {}, registry);
  const auto catalog = describe_types(registry);
  const MessageTypes types{catalog.files()};
  for (const auto& task : catalog.tasks()) {
    CHECK(types.find(task.input()).has_value());
    CHECK(types.find(task.output()).has_value());
  }
  std::set<std::string> files{catalog.files().begin(), catalog.files().end()};
  CHECK(files.size() == static_cast<std::size_t>(catalog.files_size()));
}

TEST_CASE("an ownership that is not known counts as any", "[actor]") {
  v1::ActorDescription actor;
  CHECK(ownership_of(actor) == Ownership::any);
  actor.set_ownership("half a dozen");
  CHECK(ownership_of(actor) == Ownership::any);
  actor.set_ownership("whole");
  CHECK(ownership_of(actor) == Ownership::whole);
}
