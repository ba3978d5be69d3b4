// What the broker knows of one placement group, waiting or placed. Internal to the layer.
#pragma once

#include <gpuactors/broker/core/rooms.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

struct GroupRecord {
  /// From now on it waits without a limit for what it loses, also at brokers that know no place of it: how long its
  /// first one was waited for counts no more.
  void was_placed() {
    request.set_wait_for_nodes(true);
    request.clear_queue_timeout_ms();
  }

  std::string name;
  v1::SubmitGroup request;
  /// Who waits until it is placed; nobody once it is.
  std::optional<BrokerAnswer<v1::GroupInfo>> asker;
  /// Callers who wait for the group's end; always empty unless it is ending.
  std::vector<BrokerAnswer<void>> removers;
  bool ending = false;
  /// Its owner's.
  Rooms::Place place;
};

} // namespace gpuactors
