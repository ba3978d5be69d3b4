#include <gpuactors/actor/registry.hpp>
#include <gpuactors/test/messages.pb.h>

#include <support/catch.hpp>

#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

Text echo(TaskContext&, const Text& in) {
  return in;
}

class Nothing : public Actor {
public:
  using Actor::Actor;

  Text greet(const Text& in) {
    return in;
  }
};

/// Brings a method.
class Looker : public Nothing {
public:
  using Nothing::Nothing;

  Number look(const Number& in) const {
    return in;
  }

  template <class Builder>
  static void register_methods(Builder& builder) {
    builder.concurrent_method("look", &Looker::look);
  }
};

class Inheritor : public Looker {
public:
  using Looker::Looker;

  Text look_twice(const Text& in) const {
    return in;
  }
};

std::string problem_of(const TypeRegistry& registry) {
  const auto checked = registry.check();
  return checked ? "" : checked.error().message();
}

} // namespace

TEST_CASE("a task is found by its name, with the messages that it takes and gives", "[actor]") {
  TypeRegistry registry;
  define_task("echo", &echo, registry);
  CHECK(problem_of(registry).empty());
  const auto found = registry.find_task("echo");
  REQUIRE(found.has_value());
  CHECK((*found)->input == Text::descriptor());
  CHECK((*found)->output == Text::descriptor());
  CHECK_FALSE((*found)->streamed);
  CHECK((*found)->needs == Needs{});
}

TEST_CASE("an unknown name is answered with the nearest ones", "[actor]") {
  TypeRegistry registry;
  define_task("echo", &echo, registry);
  define_actor<Nothing>("nothing", registry).method("greet", &Nothing::greet);
  CHECK(registry.find_task("ecoh").error().message().find("echo") != std::string::npos);
  CHECK(registry.find_actor("noting").error().message().find("nothing") != std::string::npos);
  const auto type = registry.find_actor("nothing");
  REQUIRE(type.has_value());
  CHECK((*type)->find_method("greet").has_value());
  CHECK((*type)->find_method("great").error().message().find("greet") != std::string::npos);
  // A peer may ask for a name of any length.
  CHECK((*type)->find_method("greet" + std::string(10'000, 't')).error().message().size() < 400);
  CHECK(registry.find_actor("nothing" + std::string(10'000, 'g')).error().message().size() < 400);
}

TEST_CASE("names that are taken or malformed are reported by check", "[actor]") {
  TypeRegistry twice;
  define_task("echo", &echo, twice);
  define_task("echo", &echo, twice);
  CHECK(problem_of(twice) == "task type echo is registered twice");
  TypeRegistry blank;
  define_task("with blank", &echo, blank);
  CHECK(problem_of(blank).find("with blank") != std::string::npos);
  TypeRegistry methods;
  define_actor<Nothing>("nothing", methods).method("greet", &Nothing::greet).method("greet", &Nothing::greet);
  CHECK(problem_of(methods) == "actor type nothing has two methods named \"greet\"");
  for (const auto* malformed : {"", "with blank", "what?"}) {
    TypeRegistry odd;
    define_actor<Nothing>("nothing", odd).method(malformed, &Nothing::greet);
    CHECK(problem_of(odd).find(malformed) != std::string::npos);
    CHECK(problem_of(odd).find("no name for a method") != std::string::npos);
  }
}

TEST_CASE("a base class brings methods, and the class may have others in their place", "[actor]") {
  TypeRegistry registry;
  define_actor<Inheritor>("inheritor", registry).method("own", &Nothing::greet);
  define_actor<Inheritor>("other", registry).concurrent_method("look", &Inheritor::look_twice);
  CHECK(problem_of(registry).empty());
  const auto* const plain = *registry.find_actor("inheritor");
  CHECK(plain->method_names() == std::vector<std::string>{"look", "own"});
  CHECK((*plain->find_method("look"))->concurrent);
  const auto* const other = *registry.find_actor("other");
  CHECK(other->method_names() == std::vector<std::string>{"look"});
  CHECK((*other->find_method("look"))->input == Text::descriptor());
  define_actor<Inheritor>("third", registry)
      .concurrent_method("look", &Inheritor::look_twice)
      .concurrent_method("look", &Inheritor::look);
  CHECK(problem_of(registry) == "actor type third has two methods named \"look\"");
}

TEST_CASE("needs are kept, and checked by the rules of shares", "[actor]") {
  TypeRegistry registry;
  define_task("echo", &echo, registry).needs({.gpus = 0.5, .memory_bytes = 7, .cpus = 2});
  REQUIRE(registry.find_task("echo").has_value());
  CHECK((*registry.find_task("echo"))->needs == Needs{.gpus = 0.5, .memory_bytes = 7, .cpus = 2});
  CHECK(problem_of(registry).empty());
  define_actor<Nothing>("nothing", registry).needs({.gpus = -1});
  CHECK(problem_of(registry).find("actor type nothing") != std::string::npos);
}
