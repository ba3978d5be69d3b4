// Accelerators other than GPUs: found, granted in whole units, and each lease knows its own.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/neuron_tree.hpp>

#include <set>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

std::string ids_of(const std::vector<int>& ids) {
  std::string text;
  for (const auto id : ids)
    text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

// "0 NEURON_RT_VISIBLE_CORES=0"
template <class Holder>
std::string cores_of(Holder& holder) {
  auto result = ids_of(holder.accelerator_ids("neuron_cores"));
  for (const auto& [name, value] : holder.lease().environment)
    result += " " + name + "=" + value;
  return result;
}

class CoreOwner : public Actor {
public:
  CoreOwner(Init init, const Text&) : Actor(std::move(init)) {
    // nop
  }

  Result<Text> cores(const Text&) {
    return text(cores_of(*this));
  }
};

std::shared_ptr<const TypeRegistry> core_types() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_task(
        "cores", [](TaskContext& ctx, const Text&) -> Result<Text> { return text(cores_of(ctx)); }, *made);
    define_task(
        "hold",
        [](TaskContext& ctx, const Text&) -> Result<Text> {
          gate().pass();
          return text(cores_of(ctx));
        },
        *made);
    define_task(
        "parent",
        [](TaskContext& ctx, const Text&) -> Result<Text> {
          auto cluster = Cluster::from(ctx);
          GPUACTORS_LET(child, cluster.submit<Text>("cores", text(""), {.resources = {{"neuron_cores", 1}}}).get());
          return text(cores_of(ctx) + " > " + child.text());
        },
        *made);
    define_actor<CoreOwner, Text>("core_owner", *made).method("cores", &CoreOwner::cores);
    return made;
  }();
  return registry;
}

Cluster with_cores(const NeuronTree& tree) {
  EmbedOptions options;
  options.devices = "host:1x64MiB";
  options.accelerator_root = tree.root().string();
  options.registry = core_types();
  auto cluster = Cluster::embed(std::move(options));
  REQUIRE(cluster.has_value());
  return std::move(*cluster);
}

const Options one_core{.resources = {{"neuron_cores", 1}}};

} // namespace

TEST_CASE("two tasks that ask for one neuron core each see different cores", "[cluster]") {
  const NeuronTree tree{{2}};
  auto cluster = with_cores(tree);
  gate().close();
  auto first = cluster.submit<Text>("hold", text(""), one_core);
  auto second = cluster.submit<Text>("hold", text(""), one_core);
  gate().await(2);
  gate().open();
  std::set<std::string> seen{first.get()->text(), second.get()->text()};
  CHECK(seen == std::set<std::string>{"0 NEURON_RT_VISIBLE_CORES=0", "1 NEURON_RT_VISIBLE_CORES=1"});
}

TEST_CASE("two actors that ask for one neuron core each see different cores, which are free after them", "[cluster]") {
  const NeuronTree tree{{1, 1}};
  auto cluster = with_cores(tree);
  auto first = cluster.spawn("core_owner", text(""), one_core);
  auto second = cluster.spawn("core_owner", text(""), one_core);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(first->call<Text>("cores", text("")).get()->text() == "0 NEURON_RT_VISIBLE_CORES=0");
  CHECK(second->call<Text>("cores", text("")).get()->text() == "1 NEURON_RT_VISIBLE_CORES=1");
  REQUIRE(cluster.kill(*first));
  CHECK(cluster.submit<Text>("cores", text(""), one_core).get()->text() == "0 NEURON_RT_VISIBLE_CORES=0");
}

TEST_CASE("a request for a part of a neuron core, or for more than there are, is refused with the reason",
          "[cluster]") {
  const NeuronTree tree{{2}};
  auto cluster = with_cores(tree);
  const auto error_of = [&](double cores) {
    return cluster.submit<Text>("cores", text(""), {.resources = {{"neuron_cores", cores}}}).get().error();
  };
  CHECK(error_of(0.5)
        == Error{Errc::invalid_argument, "neuron_cores is 0.5: they are granted in whole units only, 1 for example"});
  CHECK(error_of(3) == Error{Errc::infeasible, "no node has 3 neuron_cores: node local has 2"});
  CHECK(cluster.spawn("core_owner", text(""), {.resources = {{"neuron_cores", 1.5}}}).error().message()
        == "neuron_cores is 1.5: they are granted in whole units only, 2 for example");
}

TEST_CASE("a placement group cannot set aside a part of a neuron core", "[cluster]") {
  const NeuronTree tree{{2}};
  auto cluster = with_cores(tree);
  const auto group =
      cluster.create_group({{.resources = {{"neuron_cores", 1}}}, {.resources = {{"neuron_cores", 0.5}}}});
  REQUIRE_FALSE(group.has_value());
  CHECK(group.error()
        == Error{Errc::invalid_argument,
                 "bundle 1: neuron_cores is 0.5: they are granted in whole units only, 1 for example"});
  CHECK(cluster.create_group({one_core, one_core}).has_value());
}

TEST_CASE("a child that runs inside its parent's lease shares the parent's cores", "[cluster]") {
  const NeuronTree tree{{2}};
  auto cluster = with_cores(tree);
  CHECK(cluster.submit<Text>("parent", text(""), {.resources = {{"neuron_cores", 2}}}).get()->text()
        == "0,1 NEURON_RT_VISIBLE_CORES=0,1 > 0 NEURON_RT_VISIBLE_CORES=0");
}

TEST_CASE("cores given by hand are numbered from 0, and are not looked for", "[cluster]") {
  const NeuronTree broken{{-1}};
  EmbeddedNode node;
  node.name = "n0";
  node.devices = "host:1x64MiB";
  node.resources = {{"neuron_cores", 2}};
  node.accelerator_root = broken.root().string();
  EmbedOptions options;
  options.nodes = {node};
  options.registry = core_types();
  auto cluster = Cluster::embed(options);
  REQUIRE(cluster.has_value());
  CHECK(cluster->submit<Text>("cores", text(""), {.resources = {{"neuron_cores", 2}}}).get()->text()
        == "0,1 NEURON_RT_VISIBLE_CORES=0,1");
  options.nodes.front().resources = {{"neuron_cores", 1.5}};
  CHECK(Cluster::embed(options).error().message()
        == "neuron_cores is 1.5: they are granted in whole units only, 2 for example");
  options.nodes.front().resources.clear();
  CHECK(Cluster::embed(options).error().code() == Errc::unsupported);
}

TEST_CASE("a lease without accelerators has no variables of them", "[cluster]") {
  const NeuronTree tree{{2}};
  auto cluster = with_cores(tree);
  CHECK(cluster.submit<Text>("cores", text(""), {.gpus = 0.5}).get()->text().empty());
}
