// Lines between the process that lends a tensor on a device and the processes that have its memory open.
#pragma once

#include <gpuactors/actor/detail/tensor_entry.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/result.hpp>

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace gpuactors::detail {

/// The entries of lines that have ended, to be handled without holding a lock.
struct EndedLines {
  /// Lent entries to release: the borrower has closed its end, or the memory was recalled.
  std::vector<std::shared_ptr<TensorEntry>> returned;
  /// Borrowed entries whose owner has ended.
  std::vector<std::shared_ptr<TensorEntry>> lost;
};

/// A line is a pair of connected sockets that carry no data: closing one end is the only signal. The lender keeps the
/// tensor, in its owner's quota, until the borrower's end closes. The borrower gives the tensor up when the lender's
/// end closes. The kernel closes the end of a process that is killed. One thread polls the lines; the mutex of their
/// table guards everything else.
class TensorLines {
public:
  /// Opens a line that keeps `entry` until the other end closes. Returns that other end, for the borrower.
  /// @returns `unavailable` when few descriptors are left: each line, and the memory lent over it, takes one.
  Result<std::shared_ptr<Descriptor>> lend(std::shared_ptr<TensorEntry> entry);

  /// Marks the lines of the lent entry `id` for the next `sweep`, because its memory is being freed.
  void recall(std::uint64_t id);

  /// Records that `entry` is borrowed over `line`. The open memory holds `line` as well.
  void borrow(const std::shared_ptr<TensorEntry>& entry, std::shared_ptr<Descriptor> line);

  /// Removes recalled lines, and lines of borrowed entries that nobody in this process holds any more.
  void sweep(EndedLines& ended);

  /// Appends all lines to `polled`.
  void prepare(std::vector<pollfd>& polled) const;

  /// Removes lines whose other end has closed. `polled` is what `prepare` appended, after the poll.
  void settle(std::span<const pollfd> polled, EndedLines& ended);

  /// Removes all lines. Borrowed memory stays readable, but its loss is no longer noticed.
  void end(EndedLines& ended);

private:
  struct Line {
    /// The lent entry, which the line keeps alive; null for a borrowed one.
    std::shared_ptr<TensorEntry> lent;
    std::weak_ptr<TensorEntry> borrowed;
    std::shared_ptr<Descriptor> socket;
    bool recalled = false;
  };

  std::map<std::uint64_t, Line>::iterator take(std::map<std::uint64_t, Line>::iterator line, EndedLines& ended);

  /// Lines in the order in which they were added. Only the polling thread removes lines; other threads only append, so
  /// positions in `polled` stay valid.
  std::map<std::uint64_t, Line> lines_;
  std::uint64_t last_ = 0;
};

} // namespace gpuactors::detail
