// Sections and tables of the dashboard's page.
#pragma once

#include "html.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors::cli::dashboard {

/// A part of the page that folds, open at first. The script exchanges what is in it, and leaves it open or closed.
struct Section {
  std::string id;
  std::string title;
  /// Beside the title: how much there is.
  std::string summary;
  /// The command line that shows the same, without the program and the connection: "actors".
  std::string command;
};

/// Writes a section; `body` writes what is in it.
/// @param connection as in `Scene`.
void write_section(Html& html, const Section& section, std::string_view connection, const std::function<void()>& body);

/// Writes "gpuactors COMMAND CONNECTION", which people copy: it is never cut short.
void write_command(Html& html, std::string_view command, std::string_view connection);

/// A cell of a table.
struct Cell {
  // NOLINTNEXTLINE(google-explicit-constructor): text is a cell
  Cell(std::string content) : text(std::move(content)) {
    // nop
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(const char* content) : text(content) {
    // nop
  }
  Cell(std::string content, std::string look) : text(std::move(content)), kind(std::move(look)) {
    // nop
  }

  std::string text;
  /// How it looks: "bad", "time", or nothing.
  std::string kind{};
  /// Where it leads; nowhere if empty.
  std::string href{};
  /// What a reader sees who stays over it with the mouse; empty for nothing.
  std::string hint{};
};

/// Rows under titles; a title that begins with ">" aligns its column to the right. After the most rows, the table only
/// counts, and its end says how many more there are.
class HtmlTable {
public:
  /// @param command shows all rows.
  HtmlTable(Html& html, std::vector<std::string> titles, std::size_t most_rows, std::string_view command,
            std::string_view connection);
  ~HtmlTable();
  HtmlTable(const HtmlTable&) = delete;
  HtmlTable& operator=(const HtmlTable&) = delete;

  /// Returns whether the next row would be shown: others need not be made.
  [[nodiscard]] bool has_room() const noexcept {
    return rows_ < most_rows_;
  }

  void row(const std::vector<Cell>& cells);

  /// Counts a row that is not shown.
  void skip() noexcept {
    ++rows_;
  }

private:
  void begin();
  void write_cell(std::size_t column, const Cell& cell);

  Html& html_;
  std::vector<std::string> titles_;
  std::size_t most_rows_;
  std::string command_;
  std::string connection_;
  std::size_t rows_ = 0;
  // Closed in the reverse order. Nothing is open before the first row.
  std::optional<Html::Element> table_;
  std::optional<Html::Element> body_;
};

} // namespace gpuactors::cli::dashboard
