// Lines between the process that has a tensor on a device and those that have its memory open.
#pragma once

#include <gpuactors/actor/detail/tensor_entry.hpp>
#include <gpuactors/base/detail/descriptor.hpp>
#include <gpuactors/base/result.hpp>

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace gpuactors::detail {

/// What is to be done about lines that have ended, under no lock.
struct EndedLines {
  /// Let go of: nobody elsewhere has it open any more.
  std::vector<std::shared_ptr<TensorEntry>> returned;
  /// Whose owner has ended.
  std::vector<std::shared_ptr<TensorEntry>> lost;
};

/// A line is a pair of sockets on which nothing is ever said. Who lends a tensor keeps it, in its owner's quota, until
/// the other end closes; who borrowed it lets go of it when the lender's end closes. The kernel closes the end of a
/// process that is killed. One thread polls; all else is guarded by the mutex of its table.
class TensorLines {
public:
  /// Keeps `entry` until the other end closes, which is returned for the taker.
  /// @returns `unavailable` when few descriptors are left: each line, and what is lent over it, takes one.
  Result<std::shared_ptr<Descriptor>> lend(std::shared_ptr<TensorEntry> entry);

  /// Ends the lines of what is lent under this number: its memory goes.
  void recall(std::uint64_t id);

  /// `entry` is borrowed over `line`, which whoever has the memory open holds as well.
  void borrow(const std::shared_ptr<TensorEntry>& entry, std::shared_ptr<Descriptor> line);

  /// Takes out what was recalled, and what nobody holds here any more.
  void sweep(EndedLines& ended);

  /// Appends all lines to what is polled.
  void prepare(std::vector<pollfd>& polled) const;

  /// Takes out those whose other end has closed. `polled` is what `prepare` appended, after the poll.
  void settle(std::span<const pollfd> polled, EndedLines& ended);

  /// Takes out all. What is borrowed stays readable, and nobody learns of its loss any more.
  void end(EndedLines& ended);

private:
  struct Line {
    /// Lent: kept. Borrowed: null.
    std::shared_ptr<TensorEntry> lent;
    std::weak_ptr<TensorEntry> borrowed;
    std::shared_ptr<Descriptor> socket;
    bool recalled = false;
  };

  std::map<std::uint64_t, Line>::iterator take(std::map<std::uint64_t, Line>::iterator line, EndedLines& ended);

  /// By the order in which they came; changed by the thread that polls alone, but for what is added at the end.
  std::map<std::uint64_t, Line> lines_;
  std::uint64_t last_ = 0;
};

} // namespace gpuactors::detail
