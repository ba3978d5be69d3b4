// Host memory in an embedded cluster: it is counted, and nobody is held to it.
#include "fixtures.hpp"

#include <support/catch.hpp>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

constexpr std::uint64_t mib = 1U << 20;

/// Its lease's host memory in MiB.
Number own_memory(TaskContext& ctx, const Number&) {
  return number(static_cast<double>(ctx.lease().host_memory_bytes / mib));
}

std::shared_ptr<const TypeRegistry> memory_types() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_task("own_memory", own_memory, *made);
    return made;
  }();
  return registry;
}

Cluster with_host_memory(std::optional<std::uint64_t> bytes) {
  EmbedOptions options;
  options.nodes = {{.name = "n", .devices = "host:1x1MiB", .host_memory_bytes = bytes}};
  options.registry = memory_types();
  return must(Cluster::embed(options));
}

std::uint64_t offered(Cluster& cluster) {
  const auto state = must(cluster.state());
  const auto& units = state.nodes(0).node().resource_units();
  const auto it = units.find("host_memory");
  return it == units.end() ? 0 : static_cast<std::uint64_t>(it->second);
}

} // namespace

TEST_CASE("an embedded node offers the machine's host memory, or what it is told to", "[cluster]") {
  auto by_default = with_host_memory(std::nullopt);
  CHECK(offered(by_default) > 64 * mib);
  auto told = with_host_memory(100 * mib);
  CHECK(offered(told) == 100 * mib);
  CHECK(must(told.state()).nodes(0).free_host_memory_bytes() == 100 * mib);
  auto none = with_host_memory(0);
  CHECK(offered(none) == 0);
  const auto refused = none.submit<Number>("own_memory", number(0), {.host_memory_bytes = 1}).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::infeasible);
}

TEST_CASE("a lease has the host memory that was asked for, and a bundle sets it aside", "[cluster]") {
  auto cluster = with_host_memory(100 * mib);
  CHECK(must(cluster.submit<Number>("own_memory", number(0)).get()).value() == 0);
  CHECK(must(cluster.submit<Number>("own_memory", number(0), {.host_memory_bytes = 70 * mib}).get()).value() == 70);
  const auto group = must(cluster.create_group({{.host_memory_bytes = 60 * mib}}));
  CHECK(must(cluster.state()).nodes(0).free_host_memory_bytes() == 40 * mib);
  Options drawn{.host_memory_bytes = 50 * mib};
  drawn.group = group.id;
  CHECK(must(cluster.submit<Number>("own_memory", number(0), drawn).get()).value() == 50);
  drawn.host_memory_bytes = 61 * mib;
  const auto beyond = cluster.submit<Number>("own_memory", number(0), drawn).get();
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().message().find("of host memory: ") != std::string::npos);
}

TEST_CASE("host memory has a field of its own, and a largest amount", "[cluster]") {
  auto cluster = with_host_memory(100 * mib);
  const auto wrong = cluster.submit<Number>("own_memory", number(0), {.resources = {{"host_memory", 1}}}).get();
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message() == "\"host_memory\" is not a custom resource: use host_memory_bytes instead");
  const auto absurd =
      cluster.submit<Number>("own_memory", number(0), {.host_memory_bytes = limits::host_memory_bytes + 1}).get();
  REQUIRE_FALSE(absurd);
  CHECK(absurd.error().code() == Errc::invalid_argument);
  EmbedOptions options;
  options.nodes = {{.name = "n", .devices = "host:1", .resources = {{"host_memory", 1}}}};
  const auto refused = Cluster::embed(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message()
        == "\"host_memory\" is not a custom resource: use host_memory_bytes (--host-memory) instead");
}
