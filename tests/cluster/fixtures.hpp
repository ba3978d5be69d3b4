// Types and clusters that the tests of the public API share.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <support/gate.hpp>
#include <support/messages.hpp>
#include <support/results.hpp>

#include <string>

namespace gpuactors::test {

/// The gate that the tasks and methods named "wait" go through.
Gate& gate();

/// The types of the tests.
std::shared_ptr<const TypeRegistry> types();

/// An embedded cluster with `devices` on one node.
Cluster embed(const std::string& devices = "host:1x64MiB");

/// The same with one device, and other types than those.
Cluster embed(std::shared_ptr<const TypeRegistry> registry);

} // namespace gpuactors::test
