#include "table.hpp"

#include <fmt/format.h>

namespace gpuactors::cli::dashboard {

void write_section(Html& html, const Section& section, std::string_view connection, const std::function<void()>& body) {
  const auto details = html.element("details", {{"id", section.id}, {"open", ""}});
  {
    const auto summary = html.element("summary");
    html.leaf("h2", {}, section.title);
    html.leaf("span", {{"data-part", section.id + "-summary"}, {"class", "summary"}}, section.summary);
  }
  {
    // What is wide is scrolled by itself, with the keyboard too. The script exchanges what is inside.
    const auto scrolled = html.element(
        "div", {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", section.title}});
    const auto part = html.element("div", {{"data-part", section.id}});
    body();
  }
  const auto same = html.element("p", {{"class", "command"}});
  html.text("The same on the command line: ");
  write_command(html, section.command, connection);
}

void write_command(Html& html, std::string_view command, std::string_view connection) {
  const auto code = html.element("code");
  html.whole_text(fmt::format("gpuactors {} {}", command, connection));
}

HtmlTable::HtmlTable(Html& html, std::vector<std::string> titles, std::size_t most_rows, std::string_view command,
                     std::string_view connection)
  : html_(html), titles_(std::move(titles)), most_rows_(most_rows), command_(command), connection_(connection) {
  // nop
}

HtmlTable::~HtmlTable() {
  if (rows_ == 0)
    html_.leaf("p", {{"class", "soft"}}, "None.");
  body_.reset();
  table_.reset();
  if (rows_ <= most_rows_)
    return;
  const auto more = html_.element("p", {{"class", "more"}});
  html_.text(fmt::format("{} more: ", rows_ - most_rows_));
  write_command(html_, command_, connection_);
}

void HtmlTable::row(const std::vector<Cell>& cells) {
  if (rows_++ >= most_rows_)
    return;
  if (!table_)
    begin();
  const auto row = html_.element("tr");
  for (std::size_t column = 0; column < cells.size(); ++column)
    write_cell(column, cells[column]);
}

void HtmlTable::begin() {
  table_.emplace(html_, Html::Name{"table"}, Html::Attributes{});
  {
    const auto head = html_.element("thead");
    const auto row = html_.element("tr");
    for (const std::string_view title : titles_)
      if (title.starts_with('>'))
        html_.leaf("th", {{"scope", "col"}, {"class", "number"}}, title.substr(1));
      else
        html_.leaf("th", {{"scope", "col"}}, title);
  }
  body_.emplace(html_, Html::Name{"tbody"}, Html::Attributes{});
}

void HtmlTable::write_cell(std::size_t column, const Cell& cell) {
  const auto* const side = titles_[column].starts_with('>') ? "number" : "word";
  const auto kind = cell.kind.empty() ? std::string{side} : fmt::format("{} {}", side, cell.kind);
  const auto element = cell.hint.empty() ? html_.element("td", {{"class", kind}})
                                         : html_.element("td", {{"class", kind}, {"title", cell.hint}});
  if (cell.href.empty())
    html_.text(cell.text);
  else
    html_.leaf("a", {{"href", cell.href}, {"target", "_blank"}}, cell.text);
}

} // namespace gpuactors::cli::dashboard
