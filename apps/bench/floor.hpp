// The floors under calls: plain CAF actors, in one process, and in two of their own with the settings that served CAF
// best (docs/design/0010-processes-and-links.md).
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <caf/actor.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// Plain actors in the actor system of a cluster that answer with what they are sent: one on CAF's scheduler and one on
/// a thread of its own, as actors of ours have. Which is faster depends on the machine; the floor is the faster one.
class LocalFloor {
public:
  explicit LocalFloor(Cluster& cluster);
  LocalFloor(const LocalFloor&) = delete;
  LocalFloor& operator=(const LocalFloor&) = delete;
  ~LocalFloor();

  /// Microseconds a request, with so many in flight. Asks each of them so often.
  [[nodiscard]] double ask(int count, int flying) const;

private:
  Cluster& cluster_;
  caf::actor scheduled_;
  caf::actor detached_;
};

/// What a request carries over the network, ours and plain CAF\'s.
inline constexpr std::size_t message_bytes = 64;

/// What plain CAF is asked for.
struct FloorRun {
  std::string address;
  /// Empty means plaintext, through CAF's own middleman; else a folder of certificates, through CAF's OpenSSL module.
  std::string certificates;
  int count = 0;
  /// Requests in flight; 1 means one after the other.
  int flying = 1;
  /// Whether the actor has to do its work for each.
  bool works = false;
};

/// Makes what a floor's actor does for those who ask for work, on the thread that then does it.
using MakeWork = std::function<std::function<void()>()>;

/// In a process of its own: an actor that answers with what it is sent, and first works for whoever asks for that, if
/// `make_work` is not null. Writes its address, and serves until it ends.
int serve_floor(const std::string& certificates, MakeWork make_work = nullptr);

/// In a process of its own: writes microseconds a request, for each line of the same run.
int ask_floor(const FloorRun& run);

} // namespace gpuactors::bench
