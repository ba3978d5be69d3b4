// KeptConnections: the end of a process whose peers are to get all that it has sent. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/descriptor.hpp>

#include <vector>

namespace gpuactors::detail {

/// Keeps the TCP connections that the process has now open, also when their owners have closed them. One that is closed
/// while there is something in it that nobody has read, such as a heartbeat, is reset, and what the other side has not
/// taken yet is lost.
class KeptConnections {
public:
  KeptConnections();

  /// Waits until the other sides have taken all that was sent to them, at most for `patience`.
  void await_taken(Duration patience) const;

private:
  std::vector<Descriptor> connections_;
};

} // namespace gpuactors::detail
