#include <gpuactors/device/accelerators.hpp>

#include <support/catch.hpp>
#include <support/neuron_tree.hpp>

#include <set>

using namespace gpuactors;
using test::NeuronTree;

TEST_CASE("every kind of accelerator has a name and a variable of its own") {
  std::set<std::string_view> names;
  std::set<std::string_view> variables;
  for (const auto& kind : accelerator_kinds()) {
    CHECK(names.insert(kind.name).second);
    CHECK(variables.insert(kind.variable).second);
    CHECK(find_accelerator_kind(kind.name) == &kind);
  }
  CHECK(find_accelerator_kind("neuron_cores")->variable == "NEURON_RT_VISIBLE_CORES");
  CHECK(find_accelerator_kind("gpus")->variable == "CUDA_VISIBLE_DEVICES");
  CHECK(find_accelerator_kind("neuron") == nullptr);
}

TEST_CASE("neuron cores are counted from the device files") {
  const NeuronTree tree{{2, 4}};
  NeuronTree::write(tree.root() / "dev" / "neuron_monitor", "");
  NeuronTree::write(tree.root() / "dev" / "null", "");
  const auto found = discover_accelerators(tree.root(), {});
  REQUIRE(found);
  CHECK(*found == std::map<std::string, Share>{{"neuron_cores", Share::whole(6)}});
}

TEST_CASE("a machine without accelerators has none, and what is known is not looked for") {
  CHECK(discover_accelerators(NeuronTree{{}}.root(), {})->empty());
  const NeuronTree broken{{-1}};
  CHECK(discover_accelerators(broken.root(), {{"neuron_cores", Share::whole(1)}})->empty());
}

TEST_CASE("devices whose cores cannot be counted are an error that says what to do") {
  for (const auto* text : {"", "two\n", "0\n", "-1\n", "100000\n"}) {
    const NeuronTree tree{{2, -1}};
    if (*text != '\0')
      NeuronTree::write(tree.root() / "sys/devices/virtual/neuron_device/neuron1/core_count", text);
    const auto found = discover_accelerators(tree.root(), {});
    REQUIRE_FALSE(found);
    CHECK(found.error().code() == Errc::unsupported);
    CHECK(found.error().message().find("neuron1/core_count does not say how many cores it has: give the node the "
                                       "resource neuron_cores by hand")
          != std::string::npos);
  }
  CHECK(discover_accelerators("/nowhere/at/all", {}).error()
        == Error{Errc::not_found,
                 "there is no folder /nowhere/at/all to look for accelerators in: / is the machine's own"});
}

TEST_CASE("kinds without fractions come in whole units, other resources as one likes") {
  CHECK(check_whole_units({{"neuron_cores", Share::whole(2)}, {"licenses", Share{5000}}}));
  CHECK(check_whole_units({{"neuron_cores", Share{5000}}}).error()
        == Error{Errc::invalid_argument, "neuron_cores is 0.5: they are granted in whole units only, 1 for example"});
}
