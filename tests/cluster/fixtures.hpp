// Types and clusters that the tests of the public API share.
#pragma once

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/test/messages.pb.h>

#include <support/gate.hpp>

#include <stdexcept>
#include <string>

namespace gpuactors::test {

/// The gate that the tasks and methods named "wait" go through.
Gate& gate();

/// The types of the tests.
std::shared_ptr<const TypeRegistry> types();

/// An embedded cluster with `devices` on one node.
Cluster embed(const std::string& devices = "host:1x64MiB");

/// The value, or a failure of the test that shows the error.
template <class T>
T must(Result<T> result) {
  if (!result)
    throw std::runtime_error(to_string(result.error()));
  return std::move(*result);
}

Number number(double value);
Text text(std::string value);

} // namespace gpuactors::test
