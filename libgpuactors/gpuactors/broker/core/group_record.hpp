// What the broker knows of one placement group, waiting or placed. Internal to the layer.
#pragma once

#include <gpuactors/broker/core/rooms.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

struct GroupRecord {
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
