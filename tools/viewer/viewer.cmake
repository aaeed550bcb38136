# The viewer of `--html`: esbuild bundles TypeScript into one script, which is embedded into the
# program. Without esbuild the program is built without the viewer, and `--html` reports this.

set(viewer "${PROJECT_SOURCE_DIR}/tools/viewer")
set(viewer_files "${viewer}/markup.html")
find_program(MILLRACE_ESBUILD esbuild)
mark_as_advanced(MILLRACE_ESBUILD)
if(MILLRACE_ESBUILD)
  file(GLOB_RECURSE viewer_sources CONFIGURE_DEPENDS "${viewer}/src/*.ts")
  set(viewer_output "${CMAKE_CURRENT_BINARY_DIR}/viewer")
  add_custom_command(
    OUTPUT "${viewer_output}/script.js" "${viewer_output}/style.css"
    COMMAND "${MILLRACE_ESBUILD}" "${viewer}/src/main.ts" --bundle --minify --target=es2020 --log-level=warning
            "--outfile=${viewer_output}/script.js"
    COMMAND "${MILLRACE_ESBUILD}" "${viewer}/style.css" --minify --log-level=warning "--outfile=${viewer_output}/style.css"
    DEPENDS ${viewer_sources} "${viewer}/style.css"
    COMMENT "Bundling the viewer"
    VERBATIM)
  list(APPEND viewer_files "${viewer_output}/script.js" "${viewer_output}/style.css")
endif()
millrace_embed(millrace_page viewer ${viewer_files})
