// A model that has no replica: how long requests wait for one, and what they are told.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <optional>
#include <set>
#include <string>

namespace serve::batching {

/// As long as no start has failed, a replica is on its way, and requests wait for it: a start takes as long as it may
/// take, and no longer. Once a start has failed, they wait for `patience`, and for the starts that have begun by then:
/// one may have its share, and load. Then those that wait are given up, and others are refused, until a replica serves.
/// No clock, no thread, no lock: time is an argument, and whoever owns it guards it.
class Absence {
public:
  explicit Absence(gpuactors::Duration patience) : patience_(patience) {
    // nop
  }

  /// The last replica that served has gone, and why.
  void begin(const std::string& why);

  /// A start begins, whether a replica serves or not; `start_over` says that it has succeeded or failed, by when it
  /// began.
  void start_began(gpuactors::TimePoint when);
  void start_over(gpuactors::TimePoint began);

  /// While none serves, a start has failed, and why.
  void start_failed(gpuactors::TimePoint now, const std::string& why);

  /// A replica serves.
  void end();

  /// Nothing new is taken from now on, whether a replica serves or not, until `open` or `end`; once none serves, nobody
  /// waits.
  void close(std::string why);
  void open();

  [[nodiscard]] bool is_closed() const noexcept {
    return closed_.has_value();
  }

  /// Whether, while none serves, nobody is to wait for one. Notes when that becomes so: `due` is then over.
  [[nodiscard]] bool is_hopeless(gpuactors::TimePoint now);

  /// When `is_hopeless` becomes true, unless a replica serves before; `never` if no start has failed, as long as one
  /// is waited for, and afterwards.
  [[nodiscard]] gpuactors::TimePoint due() const noexcept;

  /// What is said of the model: "has no replica: ...", "takes no requests: ...".
  [[nodiscard]] std::string reason() const;

private:
  gpuactors::Duration patience_;
  std::string why_ = "none has been started yet";
  /// Since the first start that failed.
  std::optional<gpuactors::TimePoint> failing_since_;
  bool patience_is_over_ = false;
  /// When those began that are on their way.
  std::multiset<gpuactors::TimePoint> starts_;
  std::optional<std::string> closed_;
};

} // namespace serve::batching
