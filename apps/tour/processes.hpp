// A cluster of processes on this machine, for the programs that look at processes.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace tour {

/// A process of this program that does what `gpuactors up` does: a broker and one node, whose workers are this program
/// too. It has certificates and a port of its own, and ends with this object, or with the tour however that ends.
class Processes {
public:
  /// @param devices  SPEC of the node's devices
  /// @param resources  its other resources, such as "neuron_cores=2"
  /// @param variables  of its environment besides the tour's, such as "CUDA_VISIBLE_DEVICES=1"
  /// @returns the cluster, connected; `unavailable` when it did not come up.
  static gpuactors::Result<std::unique_ptr<Processes>> start(const std::string& devices,
                                                             const std::vector<std::string>& resources = {},
                                                             std::vector<std::string> variables = {});

  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();

  [[nodiscard]] gpuactors::Cluster& cluster() noexcept {
    return *cluster_;
  }

private:
  Processes() = default;

  gpuactors::Result<void> spawn(std::vector<std::string> arguments, std::vector<std::string> variables);
  gpuactors::Result<std::string> first_line();
  gpuactors::Result<void> connect(const std::string& line, const std::string& devices);

  std::unique_ptr<gpuactors::Cluster> cluster_;
  pid_t pid_ = 0;
  /// Reads what the process prints; at its end once the process is gone.
  int output_ = -1;
};

/// If the arguments say that a tour started this program as its cluster, does that work until it is told to end.
/// @returns the exit code of the process; nothing for any other start.
std::optional<int> run_if_cluster(int argc, const char* const* argv);

} // namespace tour
