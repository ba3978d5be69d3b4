// A device that fails on command, for tests of everything above it: of actors and tasks in an embedded cluster, or of a
// context alone.
//
//   const auto plan = std::make_shared<gpuactors::faulty::Plan>();
//   gpuactors::EmbeddedNode node{.name = "local", .devices = "host:1x1GiB"};
//   node.decorate = gpuactors::faulty::decorator(plan);
//   GPUACTORS_LET(cluster, gpuactors::Cluster::embed({.nodes = {node}}));
//   plan->fail_at(gpuactors::faulty::Call::launch, 3, gpuactors::Error{gpuactors::Errc::launch_failed, "on purpose"});
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/backend.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace gpuactors::faulty {

/// The calls of `Device` and `Backend` that can be made to fail: all that return a `Result`.
enum class Call : std::uint8_t {
  open,
  memory,
  make_stream,
  synchronize,
  make_event,
  record,
  wait,
  query,
  notify,
  allocate,
  copy,
  fill,
  launch,
  gemm,
  /// The begin and the end of a capture.
  capture,
  host_memory,
  copy_from,
  make_current,
  compile,
  attach,
  shared_footprint,
  make_shared_memory,
  open_shared_memory,
};

/// The number of kinds of calls.
inline constexpr std::size_t call_kinds = static_cast<std::size_t>(Call::open_shared_memory) + 1;

[[nodiscard]] std::string_view to_string(Call call) noexcept;

/// The number of objects that exist now under one plan; all zero at the end if nothing leaked.
struct Held {
  std::int64_t backends = 0;
  std::int64_t streams = 0;
  std::int64_t events = 0;
  std::int64_t allocations = 0;
  /// Shared memory that was announced by `Backend::attach` and not given up since.
  std::int64_t attachments = 0;

  friend bool operator==(const Held&, const Held&) = default;
};

/// The script of the failures. Calls are counted from 1, for each kind and in total. Any thread.
class Plan {
public:
  /// Makes the `n`-th call of `call` fail with `error`; later ones succeed.
  void fail_at(Call call, std::uint64_t n, Error error);

  /// Makes the `n`-th call of `call` and all later ones fail.
  void fail_from(Call call, std::uint64_t n, Error error);

  /// Makes the `n`-th call of any kind fail; for tests that fail at the i-th point, for every i.
  void fail_at_point(std::uint64_t n, Error error);

  /// Loses the context at the `n`-th call of `call`: from then on, every call of every kind fails with `context_lost`,
  /// and so does every notification that is still to come.
  void lose_context_at(Call call, std::uint64_t n);

  /// Runs `before` in front of the `n`-th call of `call`, on its caller's thread; it may block to delay the call.
  void delay(Call call, std::uint64_t n, std::function<void()> before);

  /// Forgets all rules and counts, except those of `held`.
  void reset();

  [[nodiscard]] std::uint64_t calls(Call call) const;
  [[nodiscard]] std::uint64_t calls() const;
  [[nodiscard]] Held held() const;
  [[nodiscard]] bool context_lost() const;

  // -- for the decorators ----------------------------------------------------------------------

  /// Counts a call and returns the error with which it has to fail, if any.
  Result<void> enter(Call call);

  /// Changes one of the counts of `held`.
  void count(std::int64_t Held::*what, std::int64_t change);

private:
  struct Rule {
    /// The kind of call; no value means any kind.
    std::optional<Call> call;
    std::uint64_t n = 0;
    bool on_and_on = false;
    bool loses_context = false;
    std::optional<Error> error;
    std::function<void()> before;
  };

  void add(Rule rule);

  mutable std::mutex mutex_;
  std::vector<Rule> rules_;
  std::array<std::uint64_t, call_kinds> counts_{};
  std::uint64_t total_ = 0;
  bool lost_ = false;
  Held held_;
};

/// Passes every call on to `inner`, unless `plan` says that the call fails. An operation that fails by plan has no
/// effect, but that waits are waited for and captures end. A fetch counts as its two parts, a copy and a synchronize.
/// Without rules, the device behaves like `inner`, also towards other devices. Threads: as `inner`.
class FaultyDevice final : public Device {
public:
  FaultyDevice(std::shared_ptr<Device> inner, std::shared_ptr<Plan> plan);

  [[nodiscard]] const DeviceInfo& info() const noexcept override {
    return inner_->info();
  }

  Result<DeviceMemory> memory() override;
  Result<std::unique_ptr<Backend>> open(const BackendOptions& options) override;

  [[nodiscard]] Device& undecorated() noexcept override {
    return inner_->undecorated();
  }

  [[nodiscard]] bool is_open() const override {
    return inner_->is_open();
  }

  Result<std::size_t> shared_footprint(std::size_t bytes) override;
  Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::size_t bytes) override;
  Result<std::shared_ptr<SharedMemory>> open_shared_memory(int descriptor, std::size_t bytes) override;
  void dispose(std::shared_ptr<void> what) override;

private:
  std::shared_ptr<Device> inner_;
  std::shared_ptr<Plan> plan_;
};

/// Returns a function for `EmbeddedNode::decorate` that makes devices of a node fail by `plan`: the one of this index,
/// or all of them.
[[nodiscard]] std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> decorator(std::shared_ptr<Plan> plan,
                                                                                        std::optional<int> index = {});

} // namespace gpuactors::faulty
