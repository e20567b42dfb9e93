// SPDX-License-Identifier: Apache-2.0
#include "report/html/table.h"

namespace locant::html {
namespace {

/// A number, a range or a mark of absence: set to the right.
bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.,+-e%") == std::string::npos;
}

}  // namespace

void write_table(Markup& page, const Table& table) {
  const Inside box(
      page, "div",
      {{"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", table.caption}});
  {
    const Inside whole(page, "table");
    page.element("caption", {}, table.caption);
    {
      const Inside head(page, "thead");
      const Inside line(page, "tr");
      for (const std::string& column : table.columns) page.element("th", {{"scope", "col"}}, column);
    }
    const Inside body(page, "tbody");
    for (const std::vector<std::string>& row : table.rows) {
      const Inside line(page, "tr");
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i == 0) {
          page.element("th", {{"scope", "row"}}, row[i]);
        } else if (is_number(row[i])) {
          page.element("td", {{"class", "n"}}, row[i]);
        } else {
          page.element("td", {}, row[i]);
        }
      }
    }
  }
  if (!table.note.empty()) page.element("p", {{"class", "small"}}, table.note);
}

void write_folded(Markup& page, std::string_view summary, const Table& table) {
  const Inside fold(page, "details", {{"class", "numbers"}});
  page.element("summary", {}, summary);
  write_table(page, table);
}

}  // namespace locant::html
