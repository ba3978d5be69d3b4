// Types and clusters that the tests of the public API share.
#pragma once

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/test/messages.pb.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace gpuactors::test {

/// Lets a test hold user code at a known point: the code waits until the test opens the gate.
class Gate {
public:
  /// Called by user code: says that it is there, and waits.
  void pass();
  /// Called by the test: waits until `count` have arrived in all.
  void await(int count);
  /// Lets all through, now and later.
  void open();
  void close();

private:
  std::mutex mutex_;
  std::condition_variable wake_;
  int arrived_ = 0;
  bool open_ = false;
};

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
