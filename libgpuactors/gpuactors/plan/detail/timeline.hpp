// The history of the devices in a scenario, by step, as far as a picture can show it.
#pragma once

#include <gpuactors/plan/detail/lane.hpp>
#include <gpuactors/plan/detail/observer.hpp>

#include <iosfwd>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::plan_detail {

/// A node and the index of one of its devices.
using DeviceKey = std::pair<std::string, int>;

/// Something on one device from one step to another.
struct Block {
  enum class Kind : std::uint8_t { bundle, lease, failed, draining, absent };

  static constexpr auto open = std::numeric_limits<std::size_t>::max();

  Kind kind = Kind::lease;
  DeviceKey device;
  Segment segment{0, 10'000};
  std::size_t from = 0;
  /// The step in which it ended; `open` if it never did.
  std::size_t to = open;
  /// Leases of one number have one colour.
  std::uint64_t number = 0;
  /// In how many other blocks it is drawn: a lease in its bundle, or in the lease that lent to it.
  int depth = 0;
  std::string name;
  std::string details;
};

/// Everything that is drawn.
struct Timeline {
  std::size_t steps = 0;
  /// The devices with their accelerator types, in the order in which they are drawn.
  std::map<DeviceKey, std::string> devices;
  std::vector<Block> blocks;
  /// Steps, and how many requests and groups wait from each of them on.
  std::vector<std::pair<std::size_t, std::size_t>> waiting;
  /// Steps, and the seconds that have passed from each of them on.
  std::vector<std::pair<std::size_t, double>> times;
  std::set<DeviceKey> devices_left_out;
  /// The first step that is left out; `Block::open` if none is.
  std::size_t stopped_at = Block::open;
};

/// Records the timeline while a scenario runs, in bounded memory, and writes the picture at the end.
class TimelineRecorder : public Observer {
public:
  static constexpr std::size_t most_devices = 256;
  static constexpr std::size_t most_blocks = 20'000;

  explicit TimelineRecorder(std::ostream& out) : out_(out) {
    // nop
  }

  void on_node(const Ledger& ledger, std::size_t step, NodeChange change, const std::string& node, int index) override;
  void on_event(const Ledger& ledger, std::size_t step, const Event& event, const std::string& id) override;
  void after_step(const Ledger& ledger, std::size_t step, TimePoint now) override;
  void on_end(const Ledger& ledger, const Names& names) override;

  [[nodiscard]] const Timeline& timeline() const noexcept {
    return timeline_;
  }

private:
  // A lease, or a bundle of a group: (lease, 0, 0) or (0, group, bundle).
  struct Holder {
    std::uint64_t lease = 0;
    std::uint64_t group = 0;
    int bundle = 0;

    friend auto operator<=>(const Holder&, const Holder&) = default;
  };

  // A holder's part of one device: where it was taken from, where it is drawn, and what of it others may take.
  struct Part {
    Holder source;
    std::vector<Segment> segments;
    Lane inside;
    std::vector<std::size_t> blocks;
    int depth = 0;
  };

  void open(std::size_t step, const Holder& holder, const Holder& source, const std::string& node,
            const std::vector<DeviceGrant>& devices, const std::string& name);
  void close(std::size_t step, const Holder& holder);
  void follow_group(const Ledger& ledger, std::size_t step, const Event& event, const std::string& id);
  void on_added(const Ledger& ledger, std::size_t step, const std::string& node);
  // Begins a state of a whole device, unless it is in that state; ends it, and returns whether it was in it.
  void begin(std::size_t step, Block::Kind kind, const DeviceKey& device, const char* text);
  bool end(std::size_t step, Block::Kind kind, const DeviceKey& device);
  Lane& lane_of(const Holder& holder, const DeviceKey& device);
  bool add(Block block);

  std::ostream& out_;
  Timeline timeline_;
  std::map<DeviceKey, Lane> lanes_;
  std::map<Holder, std::map<DeviceKey, Part>> holders_;
  // The blocks of the states that devices are in: failed, draining, absent.
  std::map<std::pair<DeviceKey, Block::Kind>, std::size_t> states_;
};

} // namespace gpuactors::plan_detail
