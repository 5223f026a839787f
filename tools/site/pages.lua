-- Markdown to HTML, page after page in one process: its grammars for colouring code take longer to get ready than most pages.
-- run as `pandoc lua pages.lua DIALECT`. A page comes as a line with its number of bytes, and then these; so does the answer,
-- after a line with the number of bytes of its warnings and the number of bytes of its HTML.
local reading = pandoc.ReaderOptions { columns = 9999 }
local writing = pandoc.WriterOptions { columns = 9999, html_math_method = "mathml", wrap_text = "none" }
for size in io.lines() do
  local text = io.read(tonumber(size))
  local warnings, html = pandoc.log.silence(function()
    return pandoc.write(pandoc.read(text, arg[1], reading), "html", writing)
  end)
  local said = {}
  for _, message in ipairs(warnings) do said[#said + 1] = pandoc.utils.stringify(message.message or message.type or "") end
  local complaint = table.concat(said, "\n")
  io.write(#complaint, " ", #html, "\n", complaint, html)
  io.flush()
end
