# Completion of ossia's command lines in fish: `ossia completion fish` prints this.

function __ossia_complete
    set -l program ossia
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    string match -q '*/*' -- $words[1]; and set program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -e words[1]
    command -sq -- $program; or return # else fish itself prints that it is missing
    set -l found (command $program completion fish -- $words "$word" </dev/null 2>/dev/null)
    set -l more $found[1]
    set -e found[1]
    string join -- \n $found
    contains -- "$more" files folders models; or return
    set -l flag (string match -r -- '^--[^=]*=' "$word")
    set -l paths (complete -C "'' "(string replace -r -- '^--[^=]*=' '' "$word"))
    switch $more
        case folders
            set paths (string match -r -- '^[^\t]*/(?:\t.*)?$' $paths)
        case models
            set paths (string match -r -- '^[^\t]*(?:/|\.gguf)(?:\t.*)?$' $paths)
    end
    string join -- \n "$flag"$paths
end

complete -c ossia -f -k -a '(__ossia_complete)'
