// What an answer about the cluster's state has room for. Internal to the layer.
#pragma once

#include <gpuactors/wire/protobuf.hpp>

#include <algorithm>
#include <cstddef>

namespace gpuactors {

/// Adds up the sizes of messages until there are more bytes than may be.
class Allowance {
public:
  explicit Allowance(std::size_t bytes) : left_(bytes) {
    // nop
  }

  /// Returns whether these still fit. From the first ones that do not on, none do.
  template <class Message>
  bool takes(const google::protobuf::RepeatedPtrField<Message>& messages) {
    for (const auto& message : messages)
      left_ -= std::min(left_, message.ByteSizeLong());
    return left_ > 0;
  }

private:
  std::size_t left_;
};

/// What an answer about the state has room for: the message must fit on a link, however much there is.
class StateRoom {
public:
  StateRoom(v1::ClusterState& state, std::size_t bytes) : state_(state), left_(bytes) {
    // nop
  }

  /// Takes the last of these entries out again if there is no room for it, and notes that they are not whole.
  /// @returns whether there was.
  template <class Message>
  bool keeps(google::protobuf::RepeatedPtrField<Message>& entries, const char* field) {
    constexpr std::size_t tag_and_length = 6;
    const auto bytes = entries.rbegin()->ByteSizeLong() + tag_and_length;
    if (bytes <= left_) {
      left_ -= bytes;
      return true;
    }
    entries.RemoveLast();
    const auto& known = state_.incomplete();
    if (std::find(known.begin(), known.end(), field) == known.end())
      state_.add_incomplete(field);
    return false;
  }

private:
  v1::ClusterState& state_;
  std::size_t left_;
};

} // namespace gpuactors
