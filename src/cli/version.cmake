# Writes OUT with the commit of the tree at SOURCE_DIR; touches it only if that has changed, so that
# nothing is built again for it. Run at every build.
set(commit "unknown commit")
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${SOURCE_DIR}/.git)
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
        OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
        set(commit "commit ${described}")
    endif()
endif()
set(text "#define VERSION_NUMBER \"${VERSION}\"\n#define VERSION_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${OUT})
    file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
    file(WRITE ${OUT} "${text}")
endif()
